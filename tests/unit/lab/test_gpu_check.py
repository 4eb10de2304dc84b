"""The GPU check where there is no GPU: what it leaves out, and what it keeps of a broken run."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from dragoman_training.oracle.search import greedy_search
from dragoman_training.run import checkpoint

from lab.gpu import gpu_check
from lab.gpu.gpu_contenders import NAMES, contenders
from lab.gpu.gpu_report import Report
from lab.peers.workers.worker_protocol import TokenIds


def test_a_failed_test_is_reported(tmp_path: Path) -> None:
    (tmp_path / "test_wrong.py").write_text("def test_it():\n    assert 1 == 2\n")
    report = Report({})
    gpu_check.run_tests(report, str(tmp_path))
    assert "1 failed" in report.tests
    assert report.failures == [f"tests: {report.tests}"]


@pytest.mark.thorough
def test_the_oracle_is_read_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tatoeba-en-de").mkdir()
    for name in ("test", "valid"):
        (tmp_path / f"tatoeba-en-de/{name}.en").write_text("Good morning.\nThank you.\n")
        (tmp_path / f"tatoeba-en-de/{name}.de").write_text("Guten Morgen.\nDanke.\n")
    path = tmp_path / "oracle.json"
    writing = ["--data-dir", str(tmp_path), "--write-oracle", str(path)]
    monkeypatch.setattr(sys, "argv", ["gpu_check", *writing])
    assert gpu_check.main() == 0
    reading = ["--short", "--oracle", str(path), "--parts", "tokens", "--device", "cpu"]
    reading += ["--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["gpu_check", *reading])
    assert gpu_check.main() == 0
    assert re.search(r"ONNX Runtime fp32 +\| beam 4 +\| +100.0%", capsys.readouterr().out)
    written = json.loads((tmp_path / "out" / gpu_check.JSON_FILE).read_text())
    assert {row["equal"] for row in written["tokens"] if row["precision"] == "fp32"} == {1.0}
    oracle = json.loads(path.read_text())
    path.write_text(json.dumps({**oracle, "greedy": oracle["greedy"][::-1]}))
    assert gpu_check.main() == 1
    assert "FAIL  ONNX Runtime fp32 beam 1: 0.0%" in capsys.readouterr().err
    path.write_text(json.dumps({**oracle, "identity": "another"}))
    assert gpu_check.main() == 2
    assert "is of another model than" in capsys.readouterr().err


def test_the_batched_greedy_search_is_the_oracles(random_bundle: Path) -> None:
    available, missing = contenders(random_bundle, "cpu", 8, [], NAMES[1:])
    assert missing == dict.fromkeys(NAMES[1:], "left out")
    assert {contender.name for contender in available} == {"PyTorch eager"}
    inputs = TokenIds([[5, 6, 7, 2], [9, 2], [5, 11, 12, 13, 14, 2]], [9, 1, 12])
    right = greedy_search(checkpoint.load(random_bundle).model, inputs.sources, inputs.max_tokens)
    (fp32,) = (contender for contender in available if contender.precision == "fp32")
    with fp32.begin() as decode:
        assert decode(inputs, 1) == [hypothesis.ids for hypothesis in right]

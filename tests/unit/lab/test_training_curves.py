"""The curves of training runs."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dragoman.kernel.errors import UsageError
from lab.training import training_curves
from lab.training.training_curves import curves, draw, read_curves
from tests.conftest import REPOSITORY

RUNS = REPOSITORY / "docs" / "training-runs"


def row(kind: str, millions: float, loss: float, **more: object) -> dict[str, object]:
    return {"kind": kind, "tgt_tokens": int(millions * 1e6), "loss": loss, **more}


def test_each_metric_has_its_curve() -> None:
    found = curves(
        [
            row("train", 1, 5.0),
            row("valid", 2, 4.0, corpora={"a": 3.5, "b": 4.5}, bleu=10.0),
            row("train", 3, 3.0),
        ]
    )
    assert {name: (one.tokens, one.values) for name, one in found.items()} == {
        "training": ([1.0, 3.0], [5.0, 3.0]),
        "a": ([2.0], [3.5]),
        "b": ([2.0], [4.5]),
        "BLEU": ([2.0], [10.0]),
    }
    assert "validation" in curves([row("valid", 1, 2.0)])


def test_every_documented_run_has_its_picture() -> None:
    page = (RUNS / "README.md").read_text(encoding="utf-8")
    logs = sorted(RUNS.glob("*.jsonl"))
    assert logs
    for log in logs:
        assert f"({log.name})" in page
        assert f"({log.stem}.svg)" in page
        # Fonts and the last digits may differ; the content of the chart may not.
        assert texts_of(draw(read_curves(log))) == texts_of(log.with_suffix(".svg").read_text())


def texts_of(svg: str) -> list[str]:
    return [one.text or "" for one in ElementTree.fromstring(svg).iter() if one.tag[-5:] == "}text"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "log.jsonl: is empty"),
        ("{", "log.jsonl: is not a log of a training run"),
        (json.dumps({"kind": "train", "loss": 1}), "log.jsonl: is not a log of a training run"),
        (json.dumps([1]), "log.jsonl: is not a log of a training run"),
        (json.dumps(row("valid", 1, 5.0, corpora=3)), "log.jsonl: is not a log of a training run"),
        (
            json.dumps(row("valid", 1, 5.0, bleu="high")),
            "log.jsonl: is not a log of a training run",
        ),
        (None, "log.jsonl: cannot be read"),
    ],
)
def test_an_invalid_log_is_refused_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    content: str | None,
    message: str,
) -> None:
    log = tmp_path / "log.jsonl"
    if content is not None:
        log.write_text(content)
    with pytest.raises(UsageError, match=message):
        read_curves(log)
    monkeypatch.setattr("sys.argv", ["training_curves", str(log)])
    with pytest.raises(SystemExit):
        training_curves.main()
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_pictures_are_written_beside_their_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    rows = [row("train", 1, 5.0), row("valid", 1, 4.0), row("train", 2, 3.0)]
    log.write_text("".join(f"{json.dumps(one)}\n" for one in rows))
    monkeypatch.setattr("sys.argv", ["training_curves", str(log)])
    assert training_curves.main() == 0
    assert capsys.readouterr().out == f"{tmp_path / 'log.svg'}\n"
    assert "validation" in texts_of((tmp_path / "log.svg").read_text())

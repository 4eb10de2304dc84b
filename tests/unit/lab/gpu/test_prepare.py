from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dragoman_training.config import CorpusConfig, DataConfig, RunConfig

from lab.gpu import prepare, remote


def test_both_uploads_hold_all_encoded_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each half is smaller than the whole, and unpacking restores every byte."""
    monkeypatch.setattr(prepare, "FOLDER", tmp_path)
    monkeypatch.setattr(prepare, "_install", lambda site, _version: site.mkdir())
    monkeypatch.setattr(remote, "elapsed_s", lambda: 0.0)
    run, generator = tmp_path / "run", np.random.default_rng(0)
    numbers = range(4)
    for number in numbers:
        folder = run / f"encoded-text/{number}"
        folder.mkdir(parents=True)
        lengths = generator.integers(1, 120, 100 * (number + 1))
        ends = np.concatenate([[0], np.cumsum(lengths)])
        generator.integers(0, 16000, lengths.sum()).astype(np.uint16).tofile(folder / "ids.bin")
        ends.astype(np.int64).tofile(folder / "ends.bin")
        (folder / "about.json").write_text("{}")
    (run / "tokenizer.model").write_bytes(b"tokenizer")
    (tmp_path / "text").mkdir()
    (tmp_path / "text/valid.en.gz").write_bytes(b"en")
    (tmp_path / "text/valid.de.gz").write_bytes(b"de")
    corpora = tuple(CorpusConfig(f"corpus-{number}", ("en", "de")) for number in numbers)
    valid = (CorpusConfig("valid", ("en", "de")),)
    config = RunConfig(data=DataConfig(train=corpora, valid=valid))

    prepare.pack_text(run, config, "3.12")

    uploads = [tmp_path / "run-a.tar.xz", tmp_path / "run-b.tar.xz"]
    work = tmp_path / "work"
    for upload in uploads:
        remote.unpack(upload, work)
    for path in run.rglob("*"):
        if path.is_file():
            assert (work / path.relative_to(run)).read_bytes() == path.read_bytes(), path
    assert (work / "text/valid.de.gz").read_bytes() == b"de"
    assert not (work / "encoded-text/0/lengths.bin").exists()

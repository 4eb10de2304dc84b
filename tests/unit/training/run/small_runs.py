"""Short training runs of a tiny model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from dragoman_training.config import RunConfig, resolve
from dragoman_training.run import checkpoint

SETTINGS = (
    "model.preset=tiny",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "vocabulary.size=320",
    "training.batch_tokens=200",
    "training.warmup_steps=10",
    "training.checkpoint_every_steps=5",
    "training.validate_every_steps=10",
    "training.log_every_steps=5",
    "training.average_last=2",
)


DATA: dict[str, Any] = {"train": ["train"], "valid": ["valid"]}


def settings(steps: int, *words: str) -> RunConfig:
    return resolve(None, [*SETTINGS, f"training.steps={steps}", *words], DATA)


def command(text: Path, out: Path, *words: str) -> list[str]:
    """The command-line words for `settings(..., *words)`."""
    corpora = ('data.train=["train"]', 'data.valid=["valid"]')
    options = [f"--set={word}" for word in (*SETTINGS, *corpora, *words)]
    return ["-m", "dragoman", "train", "--data-dir", str(text), "--out", str(out), *options]


def assert_same_weights(actual: Path, right: Path) -> None:
    expected = checkpoint.load(right).model.state_dict()
    for name, tensor in checkpoint.load(actual).model.state_dict().items():
        assert torch.equal(tensor, expected[name]), name


def log_of(run: Path) -> list[dict[str, Any]]:
    """The entries of a run's log."""
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def progress_file(run: Path, step: int) -> Path:
    return run / f"checkpoints/step-{step:07d}/progress.json"


def progress_of(run: Path, step: int) -> dict[str, Any]:
    """What a checkpoint says of the run's progress."""
    progress: dict[str, Any] = json.loads(progress_file(run, step).read_text())
    return progress


def assert_average(final: Path, folders: Sequence[Path]) -> None:
    """A model is the average of others."""
    state = checkpoint.load(final).model.state_dict()
    for name, tensor in checkpoint.average(folders).items():
        assert torch.equal(state[name], tensor), name


def losses(run: Path, kind: str = "train", name: str = "loss") -> dict[int, float]:
    """A run's log entries by step; a repeated step is an error."""
    points = [(entry["step"], entry[name]) for entry in log_of(run) if entry["kind"] == kind]
    assert len(dict(points)) == len(points)
    return dict(points)

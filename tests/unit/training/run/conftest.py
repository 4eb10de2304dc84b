"""Text of the toy task, and finished runs on it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from dragoman_training.run.trainer import Trainer

from tests.toy import reverse_pairs, write_links, write_pairs
from tests.unit.training.run.small_runs import settings

Trained = Callable[[int, Path], Path]


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the corpora of `small_runs.DATA`."""
    folder = tmp_path_factory.mktemp("text")
    pairs = reverse_pairs(400, seed=1)
    write_pairs(folder / "train", pairs, ("en", "de"))
    write_links(folder / "train", pairs, ("en", "de"))  # for runs with a guided head
    write_pairs(folder / "valid", reverse_pairs(20, seed=2), ("en", "de"))
    return folder


@pytest.fixture(scope="session")
def trained(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Copies a finished run of `settings(steps)` into a folder; returns its final checkpoint."""
    runs: dict[int, Path] = {}

    def copy(steps: int, run: Path) -> Path:
        if steps not in runs:
            runs[steps] = tmp_path_factory.mktemp("trained") / "run"
            Trainer(settings(steps), text, runs[steps]).train()
        shutil.copytree(runs[steps], run)
        return run / "final"

    return copy

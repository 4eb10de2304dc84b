"""Every extra of the wheels: train, export, publish, serve and measure outside any checkout."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.wheels.conftest import Installed, installing
from tests.toy import reverse_pairs, write_pairs

pytestmark = pytest.mark.thorough

SETTINGS = (
    "vocabulary.size=320",
    "model.preset=tiny",
    "training.steps=20",
    "training.batch_tokens=1000",
    "training.warmup_steps=5",
    "training.cooldown_steps=5",
)


@pytest.fixture(scope="module")
def installed(
    python: str, wheels: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("every-extra")
    write_pairs(folder / "text", reverse_pairs(1000, seed=1), ("xx", "yy"))
    with installing(folder, wheels, "serve,export,load-test", python) as installed:
        yield installed


def test_a_model_is_trained_exported_served_and_measured(installed: Installed) -> None:
    """Each command is run as a user runs it; the model's quality does not matter."""
    options = [f"--set={setting}" for setting in SETTINGS]
    for command in (
        ("train", "--text", "text.xx", "text.yy", "--out", "run", *options),
        ("export", "onnx", "run/final", "--out", "bundle"),
        ("verify", "bundle", "--test", "text", "--sentences", "20"),
        ("publish", "bundle", "--to", "repository"),
    ):
        done = installed.dragoman(*command)
        assert done.returncode == 0, done.stderr
    with installed.serving("--repository", "repository") as server:
        measure = ("--windows", "1", "--window-s", "2", "--warm-up-s", "1", "--concurrency", "2")
        done = installed.dragoman(
            "load-test", "--url", server.grpc, *measure, "--json", "load.json"
        )
    assert done.returncode == 0, done.stderr
    assert json.loads((installed.folder / "load.json").read_text())

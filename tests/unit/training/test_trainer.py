from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.cli import main
from dragoman.errors import UsageError
from tests.toy import reverse_pairs, write_pairs
from training import checkpoint
from training.config import CorpusConfig, RunConfig, resolve
from training.trainer import Trainer

SETTINGS = (
    "model.preset=tiny",
    "vocabulary.size=320",
    "training.batch_tokens=200",
    "training.warmup_steps=10",
    "training.checkpoint_every_steps=5",
    "training.validate_every_steps=10",
    "training.log_every_steps=5",
    "training.average_last=2",
)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    write_pairs(folder / "train", reverse_pairs(400, seed=1), ("en", "de"))
    write_pairs(folder / "valid", reverse_pairs(20, seed=2), ("en", "de"))
    return folder


def settings(steps: int) -> RunConfig:
    data: dict[str, Any] = {"train": ["train"], "valid": ["valid"]}
    return resolve(None, [*SETTINGS, f"training.steps={steps}"], data)


def test_a_killed_run_goes_on_to_the_same_weights(text: Path, tmp_path: Path) -> None:
    whole = Trainer(settings(20), text, tmp_path / "whole").train()
    Trainer(settings(15), text, tmp_path / "cut").train()
    # The kill comes after step 10's checkpoint: what was done since is lost.
    shutil.rmtree(tmp_path / "cut" / "checkpoints" / "step-0000015")
    resumed = Trainer(settings(20), text, tmp_path / "cut", resume=True).train()
    right, found = checkpoint.load(whole), checkpoint.load(resumed)
    for name, tensor in right.model.state_dict().items():
        assert torch.equal(tensor, found.model.state_dict()[name]), name


def test_a_run_leaves_its_settings_log_and_average(text: Path, tmp_path: Path) -> None:
    final = Trainer(settings(20), text, tmp_path / "run").train()
    assert checkpoint.load(final).config == settings(20)
    entries = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").open()]
    assert [e["step"] for e in entries if e["kind"] == "valid"] == [10, 20]
    losses = [e["loss"] for e in entries if e["kind"] == "train"]
    assert losses[-1] < losses[0]
    assert list((tmp_path / "run" / "tensorboard").iterdir())
    mean = checkpoint.average(checkpoint.step_folders(tmp_path / "run")[-2:])
    assert torch.equal(
        checkpoint.load(final).model.state_dict()["embedding.weight"], mean["embedding.weight"]
    )


def test_a_folder_in_use_is_not_overwritten(text: Path, tmp_path: Path) -> None:
    Trainer(settings(5), text, tmp_path / "run").train()
    with pytest.raises(UsageError, match="holds a run already"):
        Trainer(settings(5), text, tmp_path / "run")


def test_one_command_trains_on_files_of_ones_own(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "--text", str(text / "train.en"), str(text / "train.de")]
    options = [f"--set={setting}" for setting in (*SETTINGS, "training.steps=5")]
    assert main([*words, "--out", str(tmp_path / "run"), *options]) == 0
    final = Path(capsys.readouterr().out.strip())
    assert checkpoint.load(final).config.data.languages == ("en", "de")


def test_text_of_ones_own_takes_the_place_of_a_recipes(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('[data]\ntrain = ["a"]\nvalid = ["b"]\njoined_share = 0.5\n')
    data = resolve(recipe, [], {"train": ["mine"], "valid": []}).data
    assert (data.train, data.valid) == ((CorpusConfig("mine", ("en", "de")),), ())
    assert data.joined_share == 0.5
    assert resolve(recipe, ["data.joined_share=0.2"]).data.joined_share == 0.2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "x"], "data.train is empty"),
        (["--out", "x", "--set", "model.hedas=2"], "unknown key 'hedas'"),
        (["--out", "x", "--set", "model.preset=huge"], "unknown preset 'huge'"),
        (["--out", "x", "--config", "none.toml"], "none.toml: cannot be read"),
        (["--out", "x", "--text", "a.en", "b.de"], "name them alike"),
        (["--out", "x", "--text", "a.en", "a.de"], "a.en: no such file"),
        (["--out", "x", "--set", "training.steps=0"], "training.steps is 0"),
    ],
)
def test_wrong_words_get_one_line(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", *words]) == 2
    printed = capsys.readouterr().err.strip()
    assert message in printed
    assert "\n" not in printed

"""Runs with a guided head, from word alignments to the heads that an export chooses."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from dragoman_training.config import RunConfig, resolve
from dragoman_training.network.attention_weights import look
from dragoman_training.run import checkpoint
from dragoman_training.run.trainer import Trainer

from dragoman.cli import main
from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest
from dragoman.kernel.text import BEGIN_ID
from tests.toy import reverse_pairs, write_links, write_pairs

SETTINGS = (
    "model.preset=tiny",
    "vocabulary.size=320",
    "training.steps=40",
    "training.batch_tokens=400",
    "training.warmup_steps=10",
    "training.peak_learning_rate=3e-3",
    "training.average_last=1",
)
GUIDED = "alignment.weight=0.1"


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("linked")
    pairs = reverse_pairs(400, seed=1)
    write_pairs(folder / "my", pairs, ("en", "de"))
    write_links(folder / "my", pairs, ("en", "de"))
    write_pairs(folder / "plain", pairs, ("en", "de"))
    write_pairs(folder / "held", reverse_pairs(100, seed=6), ("en", "de"))
    return folder


def settings(prefix: str, *words: str) -> RunConfig:
    return resolve(None, [*SETTINGS, *words], {"train": [prefix]})


def error_rate(folder: Path, layer: int, head: int) -> float:
    """Share of words that a head links to another word than their copy, when it reads them."""
    loaded, wrong, total = checkpoint.load(folder), 0, 0
    for source, target in reverse_pairs(100, seed=7):
        src_ids = torch.tensor([loaded.tokenizer.encode_source(source, "de")])
        tgt_ids = torch.tensor([[BEGIN_ID, *loaded.tokenizer.encode(target)]])
        _, _, cross = look(loaded.model, src_ids, src_ids > 0, tgt_ids)
        positions = cross[0, layer, head, 1:, 1:-1].argmax(dim=-1)
        number = len(source.split())
        assert len(positions) == number, "each word is one token"
        wrong += int((positions != torch.arange(number).flip(0)).sum())
        total += number
    return wrong / total


@pytest.mark.thorough
def test_a_guided_head_aligns_and_is_chosen_by_the_export(text: Path, tmp_path: Path) -> None:
    unguided = Trainer(settings("my"), text, tmp_path / "unguided").train()
    # Word alignments are held out together with their text.
    words = ["train", "--text", str(text / "my.en"), str(text / "my.de")]
    words += [f"--set={word}" for word in (*SETTINGS, GUIDED)]
    assert main([*words, "--out", str(tmp_path / "guided")]) == 0
    guided = tmp_path / "guided" / "final"
    assert error_rate(unguided, 0, 0) > 0.5
    assert error_rate(guided, 0, 0) < 0.25
    words = ["export", "onnx", str(guided), "--out", str(tmp_path / "bundle")]
    assert main([*words, "--alignment-text", "held", "--data-dir", str(text)]) == 0
    chosen = Manifest.load(tmp_path / "bundle").alignment
    assert chosen is not None
    assert chosen.when_read
    assert chosen.heads[0] == (0, 0)


def test_links_change_nothing_without_a_weight(text: Path, tmp_path: Path) -> None:
    few = ("training.steps=5",)
    states = [
        checkpoint.load(
            Trainer(settings(name, *few), text, tmp_path / name).train()
        ).model.state_dict()
        for name in ("my", "plain")
    ]
    assert all(torch.equal(states[1][name], tensor) for name, tensor in states[0].items())


def test_a_guided_run_needs_links(text: Path, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"alignment.weight is 0\.1, but no text of data.train has"
    ):
        Trainer(settings("plain", GUIDED), text, tmp_path / "run")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("alignment.weight=0.0", "alignment.weight is 0.0: give a number above 0"),
        ("alignment.weight=nan", "alignment.weight is nan: give a number above 0"),
        ("alignment.layer=2", "alignment.layer is 2: give a number from 0 to 1"),
        ("alignment.head=-1", "alignment.head is -1: give a number from 0 to 3"),
        (
            "data.subword_dropout=0.1",
            "data.subword_dropout is 0.1: word alignments need the fixed segmentation",
        ),
    ],
)
def test_impossible_settings_are_refused(word: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        settings("my", GUIDED, word)

"""Bundles of small random models, each with its own languages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dragoman_export.bundle import Storage, export_bundle
from dragoman_training.config import DataConfig, RunConfig, VocabularyConfig
from dragoman_training.network.transformer import Transformer
from dragoman_training.run import checkpoint
from dragoman_training.text.vocabulary import train_vocabulary

from dragoman.kernel.manifest import Manifest
from tests.tiny_models import VOCAB_SIZE, tiny_model
from tests.toy import reverse_pairs

LANGUAGES = ("en", "de", "fr")


_SEEDS = (1, 7, 18, 15, 19)
"""Of random models that generate letters: other translations would be replaced by their text."""


def make_vocabulary(folder: Path, languages: tuple[str, ...]) -> Path:
    """Write the vocabulary of the toy task's words."""
    path = folder / "tokenizer.model"
    texts = [text for pair in reverse_pairs(500, seed=0) for text in pair]
    train_vocabulary(texts, languages, VocabularyConfig(size=VOCAB_SIZE), path)
    return path


def save_checkpoint(
    folder: Path, model: Transformer, tokenizer: Path, data: DataConfig | None = None
) -> Path:
    """Write a checkpoint of a model, by default for English and German; returns its folder."""
    config = RunConfig(
        model=model.config,
        data=data or DataConfig(),
        vocabulary=VocabularyConfig(size=VOCAB_SIZE),
    )
    checkpoint.save(folder, model.state_dict(), config, tokenizer)
    return folder


def make_bundle(
    folder: Path,
    model: Transformer,
    tokenizer: Path,
    data: DataConfig | None = None,
    storage: Storage = "fp32",
) -> Path:
    """Write a checkpoint of a model into a folder, and a bundle beside it, which is returned."""
    saved = save_checkpoint(folder / "checkpoint", model, tokenizer, data)
    export_bundle(saved, folder / "bundle", storage)
    return folder / "bundle"


def make_bundles(folder: Path, directions: Mapping[str, str]) -> list[Path]:
    """Make a bundle for each name, each with another model, for directions such as `en-de
    de-en`."""
    tokenizer = make_vocabulary(folder, LANGUAGES)
    data = DataConfig(languages=LANGUAGES)
    for seed, name in zip(_SEEDS, directions, strict=False):
        saved = folder / "checkpoints" / name
        save_checkpoint(saved, tiny_model(seed=seed), tokenizer, data)
        export_bundle(saved, folder / name)
        limit_directions(folder / name, directions[name])
    return [folder / name for name in directions]


def limit_directions(bundle: Path, directions: str) -> None:
    """Restrict a bundle to these directions."""
    pairs = tuple(tuple(direction.split("-")) for direction in directions.split())
    languages = tuple(dict.fromkeys(language for pair in pairs for language in pair))
    replace(Manifest.read(bundle), languages=languages, directions=pairs).write(bundle)

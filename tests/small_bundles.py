"""Bundles of small random models, each with its own languages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dragoman_export.bundle import export_bundle
from dragoman_training.config import DataConfig, RunConfig, VocabularyConfig
from dragoman_training.run import checkpoint
from dragoman_training.text.vocabulary import train_vocabulary

from dragoman.kernel.manifest import Manifest
from tests.tiny_models import VOCAB_SIZE, tiny_config, tiny_model
from tests.toy import reverse_pairs

LANGUAGES = ("en", "de", "fr")


_SEEDS = (1, 7, 18, 15, 19)
"""Of random models that generate letters: other translations would be replaced by their text."""


def make_bundles(folder: Path, directions: Mapping[str, str]) -> list[Path]:
    """Make a bundle for each name, each with another model, for directions such as `en-de
    de-en`."""
    tokenizer = folder / "tokenizer.model"
    texts = [text for pair in reverse_pairs(500, seed=0) for text in pair]
    train_vocabulary(texts, LANGUAGES, VocabularyConfig(size=VOCAB_SIZE), tokenizer)
    config = RunConfig(
        model=tiny_config(),
        data=DataConfig(languages=LANGUAGES),
        vocabulary=VocabularyConfig(size=VOCAB_SIZE),
    )
    for seed, name in zip(_SEEDS, directions, strict=False):
        state = tiny_model(seed=seed).state_dict()
        checkpoint.save(folder / "checkpoints" / name, state, config, tokenizer)
        export_bundle(folder / "checkpoints" / name, folder / name)
        limit_directions(folder / name, directions[name])
    return [folder / name for name in directions]


def limit_directions(bundle: Path, directions: str) -> None:
    """Restrict a bundle to these directions."""
    pairs = tuple(tuple(direction.split("-")) for direction in directions.split())
    languages = tuple(dict.fromkeys(language for pair in pairs for language in pair))
    replace(Manifest.read(bundle), languages=languages, directions=pairs).write(bundle)

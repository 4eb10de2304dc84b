"""Twenty models with random weights, each for its own pair of languages."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from dragoman_training.network.architecture import ModelConfig

from lab.peers.models.base_model import BASE, random_texts, write_random_bundle
from tests.campaigns.plan import Plan
from tests.served_bundles import swap

LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "pt")
COUNT = 20
REPLACED = 4
"""Models with a second version."""
_OPUS = (
    BASE,
    replace(BASE, vocab_size=40_000),
    replace(BASE, decoder_layers=3),
    replace(BASE, model_size=384, feed_forward_size=1536, heads=6, norm="pre"),
)
"""Shapes of 40 to 65 million parameters."""
_SMALL = tuple(
    ModelConfig(1000, 64 * size, 128 * size, 4, encoder_layers=2, decoder_layers=layers)
    for size, layers in ((1, 2), (2, 2), (1, 3), (2, 1))
)


@dataclass(frozen=True)
class RandomModel:
    """A model: its link, its versions, and its two languages."""

    link: Path
    versions: tuple[Path, ...]
    languages: tuple[str, str]

    @property
    def directions(self) -> tuple[tuple[str, str], ...]:
        """Source and target language, both ways."""
        return self.languages, (self.languages[1], self.languages[0])


def make_models(folder: Path, plan: Plan) -> list[RandomModel]:
    """Make all models and their versions; each is served through a symbolic link to its first
    one."""
    shapes = _SMALL if plan.short else _OPUS
    (folder / "served").mkdir()
    models = []
    for number, languages in enumerate(list(combinations(LANGUAGES, 2))[:COUNT]):
        link = folder / "served" / "-".join(languages)
        shape = shapes[number % len(shapes)]
        versions = tuple(
            _version(folder / f"{link.name}.{version}", shape, languages, number + COUNT * version)
            for version in range(2 if number < REPLACED else 1)
        )
        swap(link, versions[0])
        models.append(RandomModel(link, versions, languages))
    return models


def _version(folder: Path, shape: ModelConfig, languages: tuple[str, str], seed: int) -> Path:
    folder.mkdir()
    bundle = write_random_bundle(folder, shape, languages, seed, "fp16")
    shutil.rmtree(folder / "checkpoint")
    return bundle


def texts(plan: Plan, count: int) -> Sequence[str]:
    """Texts whose characters are in every model's vocabulary."""
    shapes = _SMALL if plan.short else _OPUS
    return random_texts(count, min(shapes, key=lambda shape: shape.vocab_size))

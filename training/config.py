"""The settings of a training run, and their resolved form beside every checkpoint."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dragoman.errors import UsageError
from dragoman.settings import from_mapping, override, read_toml
from training.model import PRESETS, ModelConfig


@dataclass(frozen=True)
class DataConfig:
    """Which text to learn from.

    `train` and `valid` are prefixes: `a/b` stands for the files `a/b.en` and `a/b.de` (plain, .gz
    or .xz), line N of one beside line N of the other. Every ordered pair of languages is learnt.
    """

    languages: tuple[str, ...] = ("en", "de")
    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    max_length_tokens: int = 200
    """Pairs with a longer side are left out."""
    joined_share: float = 0.0
    """Share of examples made by joining two, so that the model has seen more than short lines.
    Source: Kondo et al. 2021, https://aclanthology.org/2021.acl-srw.15"""

    def __post_init__(self) -> None:
        if len(self.languages) != 2 or self.languages[0] == self.languages[1]:
            raise UsageError(f"data.languages is {list(self.languages)}: give two different ones")
        if not 0.0 <= self.joined_share <= 1.0:
            raise UsageError(f"data.joined_share is {self.joined_share}: give a share from 0 to 1")


@dataclass(frozen=True)
class VocabularyConfig:
    """How to learn the joint SentencePiece vocabulary (BPE with byte fallback)."""

    size: int = 8000
    character_coverage: float = 0.9998


@dataclass(frozen=True)
class OptimisationConfig:
    """Optimiser, schedule and bookkeeping; defaults are the paper's where it gives them."""

    steps: int = 100_000
    batch_tokens: int = 25_000
    """Tokens in a batch, padding included, on whichever side is longer."""
    warmup_steps: int = 4000
    peak_learning_rate: float | None = None
    """None: the paper's E^-0.5 * warmup_steps^-0.5."""
    cooldown_steps: int = 0
    """Last steps, over which the learning rate falls linearly to zero."""
    label_smoothing: float = 0.1
    clip_norm: float = 1.0
    precision: Literal["fp32", "bf16"] = "bf16"
    seed: int = 1
    log_every_steps: int = 50
    validate_every_steps: int = 1000
    checkpoint_every_steps: int = 1000
    keep_checkpoints: int = 8
    average_last: int = 5
    """How many of the last checkpoints the final model averages."""

    def __post_init__(self) -> None:
        at_least_zero = ("cooldown_steps", "seed")
        for setting in dataclasses.fields(self):
            value = getattr(self, setting.name)
            if setting.type == "int" and value < (setting.name not in at_least_zero):
                raise UsageError(f"training.{setting.name} is {value}: too small")
        if not 0.0 <= self.label_smoothing < 1.0:
            raise UsageError(
                f"training.label_smoothing is {self.label_smoothing}: give a share from 0 to 1"
            )


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a training run."""

    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    training: OptimisationConfig = field(default_factory=OptimisationConfig)

    def to_json(self) -> str:
        """The resolved settings, as `from_json` reads them."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, path: Path) -> RunConfig:
        """Read what `to_json` wrote.

        Raises:
            UsageError: the file is missing, is not JSON, or holds what is not known here.
        """
        try:
            return from_mapping(cls, json.loads(path.read_text(encoding="utf-8")), str(path))
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise UsageError(f"{path}: not valid JSON: {error}") from error


def resolve(
    path: Path | None, words: Sequence[str], data: Mapping[str, Any] | None = None
) -> RunConfig:
    """Join a TOML file, `--set` words and the model's preset into one configuration.

    Args:
        path: a TOML file with the tables `model`, `data`, `vocabulary` and `training`, or None.
        words: `name=value` words, which win over everything.
        data: settings of the table `data`, which win over the file's.

    Raises:
        UsageError: an unknown key or preset, or a value that makes no sense, by name.
    """
    settings = read_toml(path) if path else {}
    if data:
        settings["data"] = {**settings.get("data", {}), **data}
    override(settings, words)
    where = str(path) if path else "settings"
    model = dict(settings.get("model", {}))
    preset = model.pop("preset", "small")
    if preset not in PRESETS:
        raise UsageError(f"{where}: unknown preset {preset!r}; known: {', '.join(PRESETS)}")
    vocabulary = from_mapping(
        VocabularyConfig, settings.get("vocabulary", {}), f"{where}: vocabulary"
    )
    settings["model"] = {**PRESETS[preset], "vocab_size": vocabulary.size, **model}
    return from_mapping(RunConfig, settings, where)

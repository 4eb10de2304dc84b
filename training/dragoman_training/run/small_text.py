"""Default settings for small corpora: a recipe, and a number of steps that fits the text.

The defaults of `config` are the paper's, for millions of pairs and for GPUs. With those, a run on a
thousand pairs takes days.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from dragoman.kernel.errors import UsageError
from dragoman.kernel.settings import read_toml
from dragoman_training.config import (
    CorpusConfig,
    OptimisationConfig,
    RunConfig,
    complete,
    given_settings,
)
from dragoman_training.text.parallel_text import TextFiles

log = logging.getLogger(__name__)

_RECIPES = Path(__file__).parents[1] / "recipes"
RECIPE, FINE_TUNING = _RECIPES / "small.toml", _RECIPES / "fine-tuning.toml"
"""Recipes used if none is given: for small corpora, and for a run that fine-tunes a model."""

Settings = Mapping[str, Any]
"""Settings by table, as in a file."""

_MOST_PAIRS = 100_000
_CHARACTERS_A_TOKEN = 3.5
_FULLNESS = 0.64
"""Target tokens in a step of short sentences, over its `batch_tokens`; the rest is padding."""
_BYTES_AND_SPECIALS = 300
_MOST_ENTRIES = 8000
_SHOWN_TOKENS = 10_000
"""Target tokens that a run shows, over the square root of those of an epoch."""
_FEWEST_STEPS = 100
_CHOSEN = {
    "vocabulary": ("size",),
    "training": (
        *("steps", "warmup_steps", "cooldown_steps", "cooldown_minutes"),
        *("log_every_steps", "validate_every_steps", "checkpoint_every_steps"),
    ),
}
"""The settings that `choose` sets."""
_SCHEDULES = frozenset({"steps", "minutes"})
"""Settings that say when a run ends."""
_FINE_TUNING_STEPS = 0.25
"""Steps of a fine-tuning run, over those of a run from scratch."""
_OF_TEXT = ("data", "imported")
"""Tables that define which text is trained on."""
_OF_VALIDATION = ("stop_on", "stop_after_validations", "average_best", "valid_bleu_sentences")
"""Settings that need held-out text."""


@dataclass(frozen=True)
class TextSize:
    """Amount of training text."""

    pairs: int
    """Pairs in an epoch, each counted once."""
    tgt_tokens: int
    """Target tokens in an epoch, all directions; an estimate, made before the vocabulary exists."""
    characters: int
    """Different ones."""


def settings_for(
    recipe: Path | None,
    words: Sequence[str],
    data: Settings,
    data_dir: Path,
    saved: RunConfig | None = None,
    start: RunConfig | None = None,
    tell: bool = True,
) -> RunConfig:
    """The settings of a run; those that nobody gave are chosen for small corpora.

    A user's own text without a recipe gets the recipe `small.toml`, or `fine-tuning.toml` if the
    run starts from a model. A recipe that gives `training.steps` keeps its own schedule.

    Args:
        recipe: a TOML file, or None.
        words: `name=value` words, which override everything else.
        data: settings of the table `data` for a user's own text, which override the recipe's.
        data_dir: where relative prefixes start.
        saved: the settings of a resumed run. Without a recipe the run keeps all of them; with a
            recipe it keeps those that were chosen here when it began.
        start: the settings of the model that a new run starts from; the run's model has its sizes,
            unless a recipe gives a preset or sizes.
        tell: log what was chosen.

    Raises:
        UsageError: as `resolve` and `measure`.
    """
    if saved and recipe is None:
        return complete(given_settings(_as_given(saved), words, data))
    where = str(recipe) if recipe else "settings"
    begun = saved or start
    base = _with_model_of(begun, read_toml(recipe) if recipe else {})
    given = given_settings(base, words, data, where)
    if given.get("imported") != (_imported(begun) if begun else None):
        raise UsageError(f"{where}: imported cannot be set; --start-from names the model")
    if saved:
        return complete(_joined(given, _chosen_before(given, saved)), where)
    is_unconfigured = recipe is None and "train" in data
    if _is_complete(given) and not is_unconfigured:
        return complete(given, where)
    of_text: Settings = {name: given[name] for name in _OF_TEXT if name in given}
    corpora = complete(of_text, where).data.train
    size = measure(corpora, data_dir) if corpora else None
    if is_unconfigured:
        chosen_recipe = _without_recipe(size, start, bool(given["data"].get("valid")))
        given = given_settings(_with_model_of(start, chosen_recipe), words, data)
    config = complete(given, where)  # refuses invalid values
    gives_steps = not _SCHEDULES.isdisjoint(given.get("training", {}))
    if size is None:
        if tell and is_unconfigured and not gives_steps:
            log.warning(
                "more than %d pairs, and no --config: the run takes the paper's %d steps, meant "
                "for GPUs; for CPUs see the recipes, such as tatoeba.toml, or give "
                "--set training.steps=N",
                _MOST_PAIRS,
                OptimisationConfig.steps,
            )
        return config
    chosen = choose(given, size, _FINE_TUNING_STEPS if start else 1.0)
    if gives_steps and not is_unconfigured:
        del chosen["training"]
    if tell:
        _log(size, chosen, (FINE_TUNING if start else RECIPE) if is_unconfigured else None)
    return complete(_joined(given, chosen), where)


def _is_complete(given: Settings) -> bool:
    """Whether nothing is chosen, so that the text need not be there: it may be encoded already."""
    is_scheduled = not _SCHEDULES.isdisjoint(given.get("training", {}))
    return is_scheduled and "size" in given.get("vocabulary", {})


def measure(corpora: Iterable[CorpusConfig], data_dir: Path) -> TextSize | None:
    """Read the training text if it is small; None if it is not.

    Args:
        corpora: the training text.
        data_dir: where relative prefixes start.

    Raises:
        UsageError: the text cannot be read, or every pair has an empty side.
    """
    pairs, tgt_characters, characters = 0.0, 0.0, set[str]()
    for corpus in corpora:
        tgt_share = len(corpus.directions) / len(corpus.languages)
        joined = [data_dir / prefix for prefix in corpus.joined]
        text = TextFiles(data_dir / corpus.prefix, corpus.languages, joined=joined)
        before = pairs
        for pair in islice(text, corpus.max_pairs):
            pairs += min(corpus.weight, 1.0)
            if pairs > _MOST_PAIRS:
                return None
            tgt_characters += sum(map(len, pair)) * tgt_share * corpus.weight
            characters.update(*pair)
        if pairs == before:
            raise UsageError(
                f"{text.prefix}: every pair has an empty side; give text in both files"
            )
    tgt_tokens = math.ceil(tgt_characters / _CHARACTERS_A_TOKEN)
    return TextSize(max(1, round(pairs)), tgt_tokens, len(characters))


def choose(given: Settings, size: TextSize, share: float = 1.0) -> dict[str, dict[str, float]]:
    """Choose those settings that are not given, to fit the amount of text.

    Args:
        given: settings that the user gave.
        size: of the text.
        share: number of steps relative to a model that is trained from scratch.
    """
    training = given.get("training", {})
    batch_tokens = training.get("batch_tokens", OptimisationConfig.batch_tokens)
    steps = training.get("steps") or max(
        _steps(size.tgt_tokens, batch_tokens, share),
        training.get("warmup_steps", 0) + training.get("cooldown_steps", 0),
    )
    tenth = max(1, steps // 10)
    minutes = training.get("minutes")
    end: dict[str, float] = {"steps": steps, "cooldown_steps": steps // 4}
    if isinstance(minutes, int | float):  # other values were refused before
        end = {"cooldown_minutes": minutes / 4}
    # The vocabulary must contain every byte and most characters before it can contain words.
    entries = min(_MOST_ENTRIES, int(round(40 * math.sqrt(size.pairs), -2)))
    chosen: dict[str, dict[str, float]] = {
        "vocabulary": {"size": max(entries, _BYTES_AND_SPECIALS + 2 * size.characters)},
        "training": {
            **end,
            "warmup_steps": tenth,
            "log_every_steps": min(tenth, OptimisationConfig.log_every_steps),
            "validate_every_steps": tenth,
            "checkpoint_every_steps": tenth,
        },
    }
    return {table: _missing(values, given.get(table, {})) for table, values in chosen.items()}


def _steps(tgt_tokens: int, batch_tokens: int, share: float) -> int:
    """Number of steps for this much text. The less there is, the more often it is shown."""
    steps = share * _SHOWN_TOKENS * math.sqrt(tgt_tokens) / (batch_tokens * _FULLNESS)
    return max(_FEWEST_STEPS, int(round(steps, -1)))


def _without_recipe(size: TextSize | None, start: RunConfig | None, validates: bool) -> Settings:
    """The settings used if no recipe is given."""
    if start is None:
        return read_toml(RECIPE) if size else {}
    recipe = read_toml(FINE_TUNING)
    if not validates:
        for name in _OF_VALIDATION:
            recipe["training"].pop(name, None)
    return recipe


def _with_model_of(begun: RunConfig | None, recipe: Settings) -> Settings:
    """A recipe, completed with the model sizes and vocabulary size of the run's start."""
    if begun is None:
        return recipe
    sizes = dataclasses.asdict(begun.model)
    for name in ("vocab_size", "dropout"):
        del sizes[name]
    model = recipe.get("model", {})
    settings = {
        **recipe,
        "model": model if "preset" in model else {**sizes, **model},
        "vocabulary": {"size": begun.model.vocab_size, **recipe.get("vocabulary", {})},
    }
    return {"imported": _imported(begun), **settings} if begun.imported else settings


def _imported(begun: RunConfig) -> dict[str, Any] | None:
    return dataclasses.asdict(begun.imported) if begun.imported else None


def _chosen_before(given: Settings, saved: RunConfig) -> dict[str, dict[str, Any]]:
    """What `choose` set when the run began, from the settings in its checkpoint."""
    tables = dataclasses.asdict(saved)
    return {
        table: _missing({name: tables[table][name] for name in names}, given.get(table, {}))
        for table, names in _CHOSEN.items()
    }


def _missing(values: Mapping[str, Any], given: Settings) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in given}


def _joined(given: Settings, chosen: Settings) -> Settings:
    return {**given, **{name: {**chosen[name], **given.get(name, {})} for name in chosen}}


def _as_given(saved: RunConfig) -> Settings:
    """Settings of a checkpoint, in the form of a file."""
    tables = dataclasses.asdict(saved)
    del tables["model"]["vocab_size"]  # follows from vocabulary.size
    return tables


def _log(size: TextSize, chosen: Mapping[str, Mapping[str, float]], recipe: Path | None) -> None:
    settings = [f"{table}.{name}={n}" for table in chosen for name, n in chosen[table].items()]
    if recipe:
        settings = [f"the recipe {recipe.name}", *settings]
    if settings:
        log.warning(
            "only %d pairs, so these settings were chosen: %s; --set NAME=VALUE changes one",
            size.pairs,
            ", ".join(settings),
        )

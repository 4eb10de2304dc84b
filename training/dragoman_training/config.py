"""The settings of a training run; the resolved settings are saved beside every checkpoint."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import Path
from typing import Any, Literal

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Limits
from dragoman.kernel.settings import from_mapping, override, read_json, read_toml
from dragoman_training.network.architecture import PRESETS, ModelConfig, Precision


@dataclass(frozen=True)
class CorpusConfig:
    """One parallel corpus, and how much of it an epoch shows.

    A prefix `a/b` stands for the files `a/b.en` and `a/b.de` (plain, .gz or .xz); line N of one is
    the translation of line N of the other. The model is trained on every ordered pair of the
    corpus's languages, unless `one_way` is set.
    """

    prefix: str
    languages: tuple[str, ...] = ()
    """Empty: all of `data.languages`."""
    joined: tuple[str, ...] = ()
    """For training: the prefixes of texts that are one corpus, with one weight; `prefix` is then
    only its name. A prefix that is listed twice is read twice."""
    one_way: bool = False
    """Train only from the first language into the second."""
    weight: float = 1.0
    """How often an epoch shows each pair; at 0.25, each epoch shows a different quarter of them."""
    max_pairs: int | None = None
    """Use at most this many pairs, sampled from the whole corpus."""
    max_characters: int | None = None
    """For `dragoman clean`: this corpus's own limit, below `cleaning.max_characters`."""
    drop_matching: str | None = None
    """For `dragoman clean`: drop pairs with a side that matches this regular expression."""
    drop_lines: str | None = None
    """For `dragoman clean`: a file below `--data-dir` that lists line numbers (from 1) to
    drop."""
    strip_tags: bool = False
    """For `dragoman clean`: keep the text of lines with inline XML, as the server translates it."""
    altered_share: float | None = None
    """`dragoman clean` generates this corpus: it takes this share of the pairs of the other corpora
    in these languages and alters them by rule (`text.alterations`). Needs `one_way`, because a rule
    may change only the source."""

    def __post_init__(self) -> None:
        where = f"the corpus {self.prefix!r}"
        if not Path(self.prefix).name:
            raise UsageError(f"{where}: names no text; give a prefix such as tatoeba-en-de/train")
        if not 0.0 < self.weight < math.inf:
            raise UsageError(f"{where}: weight is {self.weight}: give a number above 0")
        if self.one_way and len(self.languages) > 2:
            raise UsageError(f"{where}: one_way needs exactly two languages: source and target")
        if self.altered_share is not None and not 0.0 < self.altered_share <= 1.0:
            raise UsageError(
                f"{where}: altered_share is {self.altered_share}: give a share above 0, up to 1"
            )
        if self.altered_share is not None and not self.one_way:
            raise UsageError(f"{where}: altered_share needs one_way: set one_way = true")
        for name in ("max_pairs", "max_characters"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{where}: {name} is {value}: give a positive number")
        try:
            re.compile(self.drop_matching or "")
        except re.error as error:
            raise UsageError(
                f"{where}: drop_matching is not a regular expression: {error}"
            ) from error

    @property
    def directions(self) -> tuple[tuple[str, ...], ...]:
        """Source and target language of each direction that the corpus trains."""
        return (self.languages,) if self.one_way else tuple(permutations(self.languages, 2))


@dataclass(frozen=True)
class DataConfig:
    """Which text to train on.

    In a file, a corpus that needs only its prefix may be given as a string.
    """

    languages: tuple[str, ...] = ("en", "de")
    train: tuple[CorpusConfig, ...] = ()
    valid: tuple[CorpusConfig, ...] = ()
    temperature: float | None = None
    """Replaces the weights: an epoch still has as many pairs as all corpora together, but a corpus
    of n pairs contributes in proportion to n^(1/temperature). Source: Arivazhagan et al. 2019,
    https://arxiv.org/abs/1907.05019"""
    max_length_tokens: int = 200
    """Pairs with a longer side are skipped."""
    subword_dropout: float = 0.0
    """BPE-dropout: probability that a merge is skipped, so that a pair is split into different
    subword tokens each time it is shown. Source: Provilkov et al. 2020,
    https://aclanthology.org/2020.acl-main.170"""
    subword_dropout_on: Literal["source", "both"] = "source"
    """Sides that get BPE-dropout. With both, the model must also generate words in rare splits."""
    subword_drawings: int = 4
    """Number of random splits made of each pair; the epochs take them in turn."""
    joined_share: float = 0.0
    """Share of examples that are two pairs joined, so that the model is not trained on short lines
    only. Source: Kondo et al. 2021, https://aclanthology.org/2021.acl-srw.15"""

    def __post_init__(self) -> None:
        if len(self.languages) < 2 or len(set(self.languages)) < len(self.languages):
            raise UsageError(
                f"data.languages is {list(self.languages)}: give two or more, each once"
            )
        if self.temperature is not None and not self.temperature > 0.0:
            raise UsageError(f"data.temperature is {self.temperature}: give a number above 0")
        if not 0.0 <= self.joined_share <= 1.0:
            raise UsageError(f"data.joined_share is {self.joined_share}: give a share from 0 to 1")
        if not 0.0 <= self.subword_dropout < 1.0:
            raise UsageError(
                f"data.subword_dropout is {self.subword_dropout}: give a probability below 1"
            )
        if self.subword_drawings < 1:
            raise UsageError(f"data.subword_drawings is {self.subword_drawings}: give 1 or more")
        for corpus in (*self.train, *self.valid):
            _check_languages(corpus, self.languages)
        taught = {language for corpus in self.train for language in corpus.languages}
        untaught = [language for language in self.languages if language not in taught]
        if self.train and untaught:
            raise UsageError(f"data.languages: no corpus in data.train has {untaught[0]!r}")

    @property
    def directions(self) -> tuple[tuple[str, str], ...]:
        """Source and target language of all trained directions, in the order of the languages."""
        pairs = permutations(self.languages, 2)
        return tuple(
            pair
            for pair in pairs
            if not self.train or any(pair in corpus.directions for corpus in self.train)
        )


def refuse_joined(corpora: Sequence[CorpusConfig]) -> None:
    """Refuse corpora that are joined from several, for commands that process text.

    Raises:
        UsageError: a corpus is.
    """
    for corpus in corpora:
        if corpus.joined:
            raise UsageError(
                f"the corpus {corpus.prefix!r}: joined is for training only; use a recipe that "
                "lists its texts one by one"
            )


def _check_languages(corpus: CorpusConfig, known: Sequence[str]) -> None:
    named = corpus.languages
    if len(named) < 2 or len(set(named)) < len(named) or not set(named) <= set(known):
        raise UsageError(
            f"the corpus {corpus.prefix!r}: languages is {list(named)}: give two or more of "
            f"data.languages, {list(known)}"
        )


@dataclass(frozen=True)
class CleaningConfig:
    """Which pairs `dragoman clean` drops."""

    held_out: tuple[CorpusConfig, ...] = ()
    """Test sets. Pairs with a sentence of these or of `data.valid` are dropped."""
    max_characters: int = 1000
    max_length_ratio: float = 2.5
    """Longer side over shorter side in characters, after adding ten to each."""
    detect_languages: bool = True
    """Drop pairs with a side that is clearly not in the language that its file says."""

    def __post_init__(self) -> None:
        if self.max_characters < 1:
            raise UsageError(f"cleaning.max_characters is {self.max_characters}: too small")
        if not self.max_length_ratio >= 1.0:
            raise UsageError(f"cleaning.max_length_ratio is {self.max_length_ratio}: too small")


@dataclass(frozen=True)
class VocabularyConfig:
    """How to train the joint SentencePiece vocabulary (BPE with byte fallback)."""

    size: int = 8000
    character_coverage: float = 0.9998


@dataclass(frozen=True)
class OptimisationConfig:
    """Optimizer, schedule and bookkeeping; the defaults are the paper's where it gives them."""

    steps: int = 100_000
    batch_tokens: int = 25_000
    """Tokens in a step, padding included, on the longer side."""
    part_tokens: int | None = None
    """Tokens in one forward and backward pass; a step accumulates the gradients of its parts. None:
    the whole step at once, divided among the processes if there are several."""
    warmup_steps: int = 4000
    peak_learning_rate: float | None = None
    """None: the paper's E^-0.5 * warmup_steps^-0.5."""
    cooldown_steps: int = 0
    """Number of last steps, over which the learning rate falls linearly to zero."""
    minutes: float | None = None
    """End the run by time, instead of after `steps`: after so many minutes of steps, validations
    and checkpoints, without reading the text. A resumed run counts the minutes before too."""
    cooldown_minutes: float = 0.0
    """Last minutes of the run, over which the learning rate falls linearly to zero; all of them if
    `minutes` is less."""
    label_smoothing: float = 0.1
    teacher: str | None = None
    """Folder of a bundle or checkpoint with the vocabulary of the run: its distribution is a part
    of the target at each token (word-level distillation, Kim & Rush 2016,
    https://aclanthology.org/D16-1139)."""
    teacher_share: float = 0.5
    """The teacher's part of the target; the reference, with label smoothing, has the rest."""
    clip_norm: float = 1.0
    optimizer: Literal["adam", "muon"] = "adam"
    """The paper's Adam, or Muon for the matrices within layers (`steps.optimizer`)."""
    precision: Precision = "auto"
    """What matrix products are computed in. auto: bf16 if the device supports it, else fp32. The
    weights are always fp32; with fp16 the loss is scaled."""
    tf32: bool = False
    """Round fp32's products to TF32 on GPUs that have it."""
    compile: bool = False
    """Compile the model with torch.compile, for batches of any shape."""
    batch_processes: int | None = None
    """Processes that prepare batches ahead of the trainer, beside one that plans the next epoch; 0:
    the trainer does it. None: 3 for a GPU, 0 for a CPU, whose cores the model needs."""
    seed: int = 1
    log_every_steps: int = 50
    validate_every_steps: int = 1000
    checkpoint_every_steps: int = 1000
    keep_checkpoints: int = 8
    average_last: int = 5
    """How many of the last checkpoints the final model averages."""
    average_best: int | None = None
    """Average this many of the best validated models instead, ranked by `stop_on`."""
    start_share: float = 0.0
    """Share of the weights of `--start-from` in the final model, which must have the same sizes and
    vocabulary. A larger share gives less of the run's gains and less of its losses on other
    text."""
    valid_bleu_sentences: int = 0
    """Sentences of each held-out corpus and direction that a validation translates by greedy
    search."""
    stop_on: Literal["loss", "bleu"] = "loss"
    """Which validation result decides whether the model improved."""
    stop_after_validations: int | None = None
    """Stop the run after this many validations in a row without a new best; the best model becomes
    the final one."""

    def __post_init__(self) -> None:
        at_least_zero = ("cooldown_steps", "seed", "valid_bleu_sentences", "batch_processes")
        for setting in dataclasses.fields(self):
            value = getattr(self, setting.name)
            if not setting.type.startswith("int") or value is None:
                continue
            if value < (setting.name not in at_least_zero):
                raise UsageError(f"training.{setting.name} is {value}: too small")
        self._check_minutes()
        for name in ("label_smoothing", "start_share"):
            share = getattr(self, name)
            if not 0.0 <= share < 1.0:
                raise UsageError(f"training.{name} is {share}: give a share from 0 to 1")
        if not 0.0 < self.teacher_share <= 1.0:
            raise UsageError(
                f"training.teacher_share is {self.teacher_share}: give a share above 0, up to 1"
            )
        for name in ("peak_learning_rate", "clip_norm"):
            number = getattr(self, name)
            if number is not None and not 0.0 < number < math.inf:
                raise UsageError(f"training.{name} is {number}: give a number above 0")
        if self.stop_on == "bleu" and not self.valid_bleu_sentences:
            raise UsageError("training.stop_on is 'bleu': give training.valid_bleu_sentences too")

    def _check_minutes(self) -> None:
        if self.minutes is not None and not 0.0 < self.minutes < math.inf:
            raise UsageError(f"training.minutes is {self.minutes}: give a number above 0")
        if not 0.0 <= self.cooldown_minutes < math.inf:
            raise UsageError(
                f"training.cooldown_minutes is {self.cooldown_minutes}: give a number from 0"
            )
        if self.cooldown_minutes and self.minutes is None:
            raise UsageError(
                f"training.cooldown_minutes is {self.cooldown_minutes}: give training.minutes too"
            )


@dataclass(frozen=True)
class AlignmentConfig:
    """Guided alignment: one cross-attention head is trained on word alignments.

    Source: Garg et al. 2019, https://arxiv.org/abs/1909.02074
    """

    weight: float | None = None
    """Weight of the head's loss beside the translation loss, such as 0.05; None: no guided head."""
    layer: int | None = None
    """Decoder layer, from 0; None: the last but one."""
    head: int = 0
    """Head in that layer, from 0."""

    def __post_init__(self) -> None:
        if self.weight is not None and not 0.0 < self.weight < math.inf:
            raise UsageError(f"alignment.weight is {self.weight}: give a number above 0")

    def layer_of(self, decoder_layers: int) -> int:
        """Index of the guided head's layer in a decoder with this many layers."""
        return max(0, decoder_layers - 2) if self.layer is None else self.layer


@dataclass(frozen=True)
class ImportConfig:
    """What is known about a model that was trained elsewhere."""

    name: str
    """The folder, or the name on the hub, that it was imported from."""
    directions: tuple[tuple[str, ...], ...]
    """Source and target language of each direction that it translates."""
    tags: dict[str, str]
    """The vocabulary entry that selects each target language; empty if there is only one."""
    max_tokens: int
    """Maximum length of a sentence, on either side."""
    max_sentence_tokens: int | None = None
    """Longer sentences of a text are cut; None: only those that the model cannot take."""
    target_margin_tokens: int = 10
    """See `Limits`."""
    alignment_head: tuple[int, ...] | None = None
    """Layer and head, from 0, of the cross-attention that was trained to align words."""


@dataclass(frozen=True)
class RunConfig:
    """Everything that defines a training run or an imported model.

    A run that fine-tunes an imported model has both.
    """

    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    training: OptimisationConfig = field(default_factory=OptimisationConfig)
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)
    alignment: AlignmentConfig = field(default_factory=AlignmentConfig)
    imported: ImportConfig | None = None

    @property
    def directions(self) -> tuple[tuple[str, ...], ...]:
        """Source and target language of every direction that the model translates."""
        return self.imported.directions if self.imported else self.data.directions

    @property
    def languages(self) -> tuple[str, ...]:
        """All languages of the model; a fine-tuning run may train fewer of them."""
        if self.imported is None:
            return self.data.languages
        sources, targets = zip(*self.imported.directions, strict=True)
        return tuple(dict.fromkeys((*sources, *targets)))

    @property
    def limits(self) -> Limits:
        """Default limits of a request; an export may set others."""
        if self.imported is None:
            return Limits()
        most = self.imported.max_tokens
        return Limits(
            max_source_tokens=most,
            max_target_tokens=most,
            target_margin_tokens=self.imported.target_margin_tokens,
            max_sentence_tokens=self.imported.max_sentence_tokens,
        )

    def to_json(self) -> str:
        """The resolved settings, in the form that `from_json` reads."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, path: Path) -> RunConfig:
        """Read what `to_json` wrote.

        Raises:
            UsageError: the file is missing, is not JSON, or has unknown keys.
        """
        settings = read_json(path)
        if isinstance(settings, dict):
            _spell_out_corpora(settings)
        return from_mapping(cls, settings, str(path))


def resolve(
    path: Path | None, words: Sequence[str], data: Mapping[str, Any] | None = None
) -> RunConfig:
    """Merge a TOML file, `--set` words and the model's preset into one configuration.

    Args:
        path: a TOML file with the tables `model`, `data`, `vocabulary`, `training`, `cleaning` and
            `alignment`, or None.
        words: `name=value` words, which override everything else.
        data: settings of the table `data`, which override the file's.

    Raises:
        UsageError: an unknown key or preset, or an invalid value; the message names it.
    """
    where = str(path) if path else "settings"
    return complete(given_settings(read_toml(path) if path else {}, words, data, where), where)


def given_settings(
    base: Mapping[str, Any],
    words: Sequence[str],
    data: Mapping[str, Any] | None = None,
    where: str = "settings",
) -> dict[str, Any]:
    """The settings that the user gave, by table, without defaults and the model's preset.

    Args:
        base: the settings of a file.
        words: as `resolve`.
        data: as `resolve`.
        where: name of the file for error messages.

    Raises:
        UsageError: a word names an unknown setting.
    """
    settings = copy.deepcopy(dict(base))
    if data:
        settings["data"] = {**_table(settings, "data", where), **data}
    _change_corpora(settings, _as_table)  # so that `--set` can address each corpus
    override(settings, words)
    return settings


def complete(given: Mapping[str, Any], where: str = "settings") -> RunConfig:
    """Build a configuration from what `given_settings` returns.

    Raises:
        UsageError: see `resolve`.
    """
    settings = copy.deepcopy(dict(given))
    model = dict(_table(settings, "model", where))
    preset = model.pop("preset", "small")
    if not isinstance(preset, str) or preset not in PRESETS:
        raise UsageError(f"{where}: unknown preset {preset!r}; known: {', '.join(PRESETS)}")
    vocabulary = from_mapping(
        VocabularyConfig, settings.get("vocabulary", {}), f"{where}: vocabulary"
    )
    settings["model"] = {**PRESETS[preset], "vocab_size": vocabulary.size, **model}
    _spell_out_corpora(settings)
    config = from_mapping(RunConfig, settings, where)
    if config.imported:
        config = replace(config, data=_in_directions(config.data, config.imported.directions))
    _check_run(config)
    return config


def _in_directions(data: DataConfig, directions: Sequence[tuple[str, ...]]) -> DataConfig:
    """Split the corpora into one-way corpora, one for each direction of an imported model.

    One-way, because the source and target vocabularies may differ.
    """

    def divided(corpora: Sequence[CorpusConfig]) -> tuple[CorpusConfig, ...]:
        return tuple(
            replace(corpus, languages=direction, one_way=True)
            for corpus in corpora
            for direction in corpus.directions
            if direction in directions
        )

    train = divided(data.train)
    if data.train and not train:
        known = ", ".join(map("-".join, directions))
        raise UsageError(f"data.train: no corpus is in a direction of the model: {known}")
    taught = {language for corpus in train for language in corpus.languages}
    languages = tuple(language for language in data.languages if language in taught)
    return replace(
        data, train=train, valid=divided(data.valid), languages=languages or data.languages
    )


def _table(settings: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    table = settings.get(name, {})
    if not isinstance(table, Mapping):
        raise UsageError(f"{where}: {name} is {table!r}: expected a table")
    return table


def _check_run(config: RunConfig) -> None:
    """Check what a run needs; checkpoints of earlier versions may lack some of it."""
    training = config.training
    if training.minutes is not None and training.cooldown_steps:
        raise UsageError(
            f"training.cooldown_steps is {training.cooldown_steps}, but training.minutes ends the "
            "run: set it to 0, and give training.cooldown_minutes"
        )
    if training.minutes is None and training.cooldown_steps > training.steps:
        raise UsageError(
            f"training.cooldown_steps is {training.cooldown_steps}: more than training.steps, "
            f"{training.steps}"
        )
    averages_best = training.average_best or training.stop_after_validations
    if not averages_best and training.average_last > training.keep_checkpoints:
        raise UsageError(
            f"training.average_last is {training.average_last}: more than "
            f"training.keep_checkpoints, {training.keep_checkpoints}"
        )
    for name, usual in (("src_vocab_size", None), ("own_output", False), ("output_bias", False)):
        if getattr(config.model, name) != usual and config.imported is None:
            raise UsageError(f"model.{name}: only imported models have this; see --start-from")
    for name in ("stop_after_validations", "average_best"):
        if getattr(training, name) is not None and not config.data.valid:
            raise UsageError(f"training.{name}: give a corpus in data.valid, which is empty")
    refuse_joined(config.data.valid)
    _check_alignment(config)


def _check_alignment(config: RunConfig) -> None:
    """Check what a run with a guided head needs."""
    alignment, model = config.alignment, config.model
    if alignment.weight is None:
        return
    numbers = {
        "layer": (alignment.layer_of(model.decoder_layers), model.decoder_layers),
        "head": (alignment.head, model.heads),
    }
    for name, (number, count) in numbers.items():
        if not 0 <= number < count:
            raise UsageError(f"alignment.{name} is {number}: give a number from 0 to {count - 1}")
    if config.data.subword_dropout:
        raise UsageError(
            f"data.subword_dropout is {config.data.subword_dropout}: word alignments need the "
            "fixed segmentation; set it to 0, or remove alignment.weight"
        )


def _spell_out_corpora(settings: dict[str, Any]) -> None:
    """Replace each corpus by a table with its languages, in place."""
    data = settings.get("data", {})
    if not isinstance(data, Mapping):
        return  # refused by name when the configuration is made
    languages = data.get("languages", DataConfig.languages)

    def spelt_out(corpus: Any) -> Any:
        table = _as_table(corpus)
        if isinstance(table, Mapping) and not table.get("languages"):
            return {**table, "languages": languages}
        return table

    _change_corpora(settings, spelt_out)


def _as_table(corpus: Any) -> Any:
    return {"prefix": corpus} if isinstance(corpus, str) else corpus


def _change_corpora(settings: dict[str, Any], change: Callable[[Any], Any]) -> None:
    """Replace each corpus, wherever corpora are listed, by the result of `change`."""
    for table, keys in (("data", ("train", "valid")), ("cleaning", ("held_out",))):
        values = settings.get(table)
        for key in keys:
            if isinstance(values, dict) and isinstance(values.get(key), list | tuple):
                values[key] = list(map(change, values[key]))

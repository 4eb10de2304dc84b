"""The settings of a training run, and their resolved form beside every checkpoint."""

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
    """One parallel text, and how much of it to show.

    A prefix `a/b` stands for the files `a/b.en` and `a/b.de` (plain, .gz or .xz), line N of one
    beside line N of the other. Every ordered pair of its languages is learnt, unless `one_way`.
    """

    prefix: str
    languages: tuple[str, ...] = ()
    """None named: all of `data.languages`."""
    one_way: bool = False
    """Learn from the first language into the second, and not back."""
    weight: float = 1.0
    """How often an epoch shows each pair: at 0.25, each epoch another quarter of them."""
    max_pairs: int | None = None
    """Take so many pairs, drawn from the whole text."""
    max_characters: int | None = None
    """For `dragoman clean`: a limit of its own, below `cleaning.max_characters`."""
    drop_matching: str | None = None
    """For `dragoman clean`: a regular expression of what a faulty side holds."""
    drop_lines: str | None = None
    """For `dragoman clean`: a file below `--data-dir` of numbers, from 1, of lines to drop."""
    strip_tags: bool = False
    """For `dragoman clean`: keep the text of lines with inline XML, as the server translates it."""
    altered_share: float | None = None
    """`dragoman clean` makes this corpus: it alters so large a share of the pairs of the others in
    these languages by rule (`text.alterations`). One way only: a rule may change a source alone."""

    def __post_init__(self) -> None:
        where = f"the corpus {self.prefix!r}"
        if not Path(self.prefix).name:
            raise UsageError(f"{where}: names no text; give a prefix such as tatoeba-en-de/train")
        if not 0.0 < self.weight < math.inf:
            raise UsageError(f"{where}: weight is {self.weight}: give a number above 0")
        if self.one_way and len(self.languages) > 2:
            raise UsageError(f"{where}: one_way leads from one language into one other: name two")
        if self.altered_share is not None and not 0.0 < self.altered_share <= 1.0:
            raise UsageError(
                f"{where}: altered_share is {self.altered_share}: give a share above 0, up to 1"
            )
        if self.altered_share is not None and not self.one_way:
            raise UsageError(f"{where}: altered_share: such text is learnt one way; set one_way")
        for name in ("max_pairs", "max_characters"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{where}: {name} is {value}: give a positive number")
        try:
            re.compile(self.drop_matching or "")
        except re.error as error:
            raise UsageError(f"{where}: drop_matching is no regular expression: {error}") from error

    @property
    def directions(self) -> tuple[tuple[str, ...], ...]:
        """Source and target language of what it teaches."""
        return (self.languages,) if self.one_way else tuple(permutations(self.languages, 2))


@dataclass(frozen=True)
class DataConfig:
    """Which text to learn from.

    In a file, a corpus that needs nothing but its prefix may be written as that string alone.
    """

    languages: tuple[str, ...] = ("en", "de")
    train: tuple[CorpusConfig, ...] = ()
    valid: tuple[CorpusConfig, ...] = ()
    temperature: float | None = None
    """Instead of weights: an epoch has as many pairs as there are, of a corpus of n pairs in
    proportion to n^(1/temperature). Source: Arivazhagan et al. 2019, https://arxiv.org/abs/1907.05019"""
    max_length_tokens: int = 200
    """Pairs with a longer side are left out."""
    subword_dropout: float = 0.0
    """Probability that a merge of pieces is left out, so that words are cut otherwise when a pair
    is shown again. Source: Provilkov et al. 2020, https://aclanthology.org/2020.acl-main.170"""
    subword_dropout_on: Literal["source", "both"] = "source"
    """Which sides it is done to. On both the model must learn to say words in any pieces."""
    subword_drawings: int = 4
    """So many ways of cutting are drawn of each pair, which then take turns."""
    joined_share: float = 0.0
    """Share of examples made by joining two, so that the model has seen more than short lines.
    Source: Kondo et al. 2021, https://aclanthology.org/2021.acl-srw.15"""

    def __post_init__(self) -> None:
        if len(self.languages) < 2 or len(set(self.languages)) < len(self.languages):
            raise UsageError(f"data.languages is {list(self.languages)}: give two or more, once")
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
        """Source and target language of all that is learnt, in the order of the languages."""
        pairs = permutations(self.languages, 2)
        return tuple(
            pair
            for pair in pairs
            if not self.train or any(pair in corpus.directions for corpus in self.train)
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
    """Test sets: none of their sentences may be learnt from, nor one of `data.valid`."""
    max_characters: int = 1000
    max_length_ratio: float = 2.5
    """Longer side over shorter side in characters, each with ten more."""
    detect_languages: bool = True
    """Drop pairs of which a side is surely in another language than its file says."""

    def __post_init__(self) -> None:
        if self.max_characters < 1:
            raise UsageError(f"cleaning.max_characters is {self.max_characters}: too small")
        if not self.max_length_ratio >= 1.0:
            raise UsageError(f"cleaning.max_length_ratio is {self.max_length_ratio}: too small")


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
    """Tokens in a step, padding included, on whichever side is longer."""
    part_tokens: int | None = None
    """Tokens that go through the model at a time; a step adds up the gradients of its parts. None:
    the whole step at once, or of several processes' each its share; never more than the step."""
    warmup_steps: int = 4000
    peak_learning_rate: float | None = None
    """None: the paper's E^-0.5 * warmup_steps^-0.5."""
    cooldown_steps: int = 0
    """Last steps, over which the learning rate falls linearly to zero."""
    label_smoothing: float = 0.1
    clip_norm: float = 1.0
    optimizer: Literal["adam", "muon"] = "adam"
    """The paper's Adam, or Muon for the matrices within layers (`steps.optimizer`)."""
    precision: Precision = "auto"
    """What products are computed in: bf16 where the device computes it, else fp32, unless it is
    said. The weights are fp32, and fp16's loss is scaled."""
    tf32: bool = False
    """Round fp32's products to TF32 on GPUs that have it."""
    compile: bool = False
    """Let torch.compile make kernels of the model, for batches of any shape."""
    seed: int = 1
    log_every_steps: int = 50
    validate_every_steps: int = 1000
    checkpoint_every_steps: int = 1000
    keep_checkpoints: int = 8
    average_last: int = 5
    """How many of the last checkpoints the final model averages."""
    average_best: int | None = None
    """Instead: how many of the best validations' models it averages, by `stop_on`."""
    start_share: float = 0.0
    """Share of the weights of `--start-from` in the final model, if it has the same sizes and
    vocabulary: less of what the run brings, and less of what it costs elsewhere."""
    valid_bleu_sentences: int = 0
    """Sentences of each held-out corpus and direction that a validation translates, greedily."""
    stop_on: Literal["loss", "bleu"] = "loss"
    """What of a validation says whether the model got better."""
    stop_after_validations: int | None = None
    """End the run when so many in a row were no better than the best; its model becomes the final
    one."""

    def __post_init__(self) -> None:
        at_least_zero = ("cooldown_steps", "seed", "valid_bleu_sentences")
        for setting in dataclasses.fields(self):
            value = getattr(self, setting.name)
            if not setting.type.startswith("int") or value is None:
                continue
            if value < (setting.name not in at_least_zero):
                raise UsageError(f"training.{setting.name} is {value}: too small")
        if not 0.0 <= self.label_smoothing < 1.0:
            raise UsageError(
                f"training.label_smoothing is {self.label_smoothing}: give a share from 0 to 1"
            )
        if not 0.0 <= self.start_share < 1.0:
            raise UsageError(
                f"training.start_share is {self.start_share}: give a share from 0 to 1"
            )
        for name in ("peak_learning_rate", "clip_norm"):
            number = getattr(self, name)
            if number is not None and not 0.0 < number < math.inf:
                raise UsageError(f"training.{name} is {number}: give a number above 0")
        if self.stop_on == "bleu" and not self.valid_bleu_sentences:
            raise UsageError("training.stop_on is 'bleu': give training.valid_bleu_sentences too")


@dataclass(frozen=True)
class AlignmentConfig:
    """Guided alignment: one cross-attention head is trained on links of words.

    Source: Garg et al. 2019, https://arxiv.org/abs/1909.02074
    """

    weight: float | None = None
    """Of the head's loss beside that of the translation, such as 0.05; None: no head is guided."""
    layer: int | None = None
    """Of the decoder, from 0; None: the last but one."""
    head: int = 0
    """Of the layer, from 0."""

    def __post_init__(self) -> None:
        if self.weight is not None and not 0.0 < self.weight < math.inf:
            raise UsageError(f"alignment.weight is {self.weight}: give a number above 0")

    def layer_of(self, decoder_layers: int) -> int:
        """The layer of the guided head, in a decoder of so many."""
        return max(0, decoder_layers - 2) if self.layer is None else self.layer


@dataclass(frozen=True)
class ImportConfig:
    """What is known of a model that was trained elsewhere."""

    name: str
    """The folder or the hub's name that it comes from."""
    directions: tuple[tuple[str, ...], ...]
    """Source and target language of what it has learnt."""
    tags: dict[str, str]
    """By which entry of its vocabulary each target language is asked for; none: it has one."""
    max_tokens: int
    """Of a sentence, on either side."""


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a training run, or what was imported instead of one.

    A run that trains an imported model further has both.
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
        """Source and target language of all that the model knows."""
        return self.imported.directions if self.imported else self.data.directions

    @property
    def languages(self) -> tuple[str, ...]:
        """All that the model knows; a run may train fewer of an imported model's."""
        if self.imported is None:
            return self.data.languages
        sources, targets = zip(*self.imported.directions, strict=True)
        return tuple(dict.fromkeys((*sources, *targets)))

    @property
    def limits(self) -> Limits:
        """What a request may ask of the model, unless an export says otherwise."""
        if self.imported is None:
            return Limits()
        most = self.imported.max_tokens
        return Limits(max_source_tokens=most, max_target_tokens=most)

    def to_json(self) -> str:
        """The resolved settings, as `from_json` reads them."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, path: Path) -> RunConfig:
        """Read what `to_json` wrote.

        Raises:
            UsageError: the file is missing, is not JSON, or holds what is not known here.
        """
        settings = read_json(path)
        if isinstance(settings, dict):
            _spell_out_corpora(settings)
        return from_mapping(cls, settings, str(path))


def resolve(
    path: Path | None, words: Sequence[str], data: Mapping[str, Any] | None = None
) -> RunConfig:
    """Join a TOML file, `--set` words and the model's preset into one configuration.

    Args:
        path: a TOML file with the tables `model`, `data`, `vocabulary`, `training`, `cleaning` and
            `alignment`, or None.
        words: `name=value` words, which win over everything.
        data: settings of the table `data`, which win over the file's.

    Raises:
        UsageError: an unknown key or preset, or a value that makes no sense, by name.
    """
    where = str(path) if path else "settings"
    return complete(given_settings(read_toml(path) if path else {}, words, data, where), where)


def given_settings(
    base: Mapping[str, Any],
    words: Sequence[str],
    data: Mapping[str, Any] | None = None,
    where: str = "settings",
) -> dict[str, Any]:
    """What a user gives, by table, before defaults and the model's preset are filled in.

    Args:
        base: the settings of a file.
        words: as `resolve`.
        data: as `resolve`.
        where: the file to name in errors.

    Raises:
        UsageError: a word that leads nowhere.
    """
    settings = copy.deepcopy(dict(base))
    if data:
        settings["data"] = {**_table(settings, "data", where), **data}
    _change_corpora(settings, _as_table)  # so that words reach into each
    override(settings, words)
    return settings


def complete(given: Mapping[str, Any], where: str = "settings") -> RunConfig:
    """Make a configuration of what `given_settings` returns.

    Raises:
        UsageError: as `resolve`.
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
    """The corpora in the directions of an imported model, each of them one-way.

    One-way, because the vocabularies of its sources and its targets may differ.

    Raises:
        UsageError: no corpus to train on is in one of its directions.
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
        raise UsageError(f"data.train: no corpus is in a direction that the model knows: {known}")
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
    """What a run needs, but not its checkpoints, which former versions may have made without."""
    training = config.training
    if training.cooldown_steps > training.steps:
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
            raise UsageError(f"model.{name}: only imported models have it: see --start-from")
    for name in ("stop_after_validations", "average_best"):
        if getattr(training, name) is not None and not config.data.valid:
            raise UsageError(f"training.{name}: give text in data.valid, which is empty")
    _check_alignment(config)


def _check_alignment(config: RunConfig) -> None:
    """What a run with a guided head needs."""
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
            f"data.subword_dropout is {config.data.subword_dropout}: links are of words that are "
            "cut as always; set it to 0, or give no alignment.weight"
        )


def _spell_out_corpora(settings: dict[str, Any]) -> None:
    """Write each corpus as a table with its languages, in place."""
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
    """Put something else in the place of each corpus, wherever they are listed."""
    for table, keys in (("data", ("train", "valid")), ("cleaning", ("held_out",))):
        values = settings.get(table)
        for key in keys:
            if isinstance(values, dict) and isinstance(values.get(key), list | tuple):
                values[key] = list(map(change, values[key]))

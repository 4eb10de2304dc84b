"""The bundle's manifest: all that serving needs to know about a model, with hashes of its files.

A bundle is a folder with `manifest.json`, the graphs, the weights and the tokenizer. Serving takes
every number from here and opens no file that is not listed here.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from dragoman.kernel.errors import UsageError, writing
from dragoman.kernel.positions import PositionRates
from dragoman.kernel.replacement import replacing
from dragoman.kernel.settings import from_mapping, read_json
from dragoman.kernel.tensors import REORDER_STATES, best_name
from dragoman.kernel.text import BEGIN_ID, END_ID, PAD_ID, Tokenizer

FORMAT_VERSION = 2
INT8_FORMAT_VERSION = 3
"""Of bundles whose weights are stored in int8, which earlier releases would read wrongly."""
FILE_NAME = "manifest.json"
_FEWEST_CANDIDATES = 4
MOST_LENGTH_PENALTY = 10.0
_FAILED = "verify: failed checks in {}"
_EXACT_INT8 = "verify: ONNX Runtime's 8-bit products exact"
FEWEST_SENTENCE_TOKENS = 8

Activation = Literal["relu", "silu", "gelu"]
"""Activation of a feed-forward layer; `gelu` is the exact one, with erf."""
DecoderKind = Literal["attention", "ssru"]
"""How a decoder layer reads the tokens before its own: by self-attention, or by a recurrence, the
SSRU (Simpler Simple Recurrent Unit).

Source: Kim et al. 2019, https://aclanthology.org/D19-5632
"""
CheckedPrecision = Literal["fp32", "int8"]
"""Precisions that `dragoman verify` checks; the others are made from the fp32 graphs."""


@dataclass(frozen=True)
class Dimensions:
    """Sizes of the network, and the kinds of its parts on which they depend."""

    vocab_size: int
    model_size: int
    feed_forward_size: int
    heads: int
    encoder_layers: int
    decoder_layers: int
    src_vocab_size: int | None = None
    """Set if the source side has its own vocabulary and embedding."""
    decoder: DecoderKind = "attention"
    norm_epsilon: float = 1e-5
    """Added to the variance in layer norms."""
    position_rates: PositionRates = "paper"
    """See `sinusoidal_positions`."""

    @property
    def src_ids(self) -> int:
        """Size of the source vocabulary."""
        return self.src_vocab_size or self.vocab_size

    @property
    def head_size(self) -> int:
        """Size D of one attention head."""
        return self.model_size // self.heads

    @property
    def is_recurrent(self) -> bool:
        """Whether decoder layers have a recurrent state [E] instead of a self-attention cache."""
        return self.decoder == "ssru"

    @property
    def state_size(self) -> int | None:
        """Size E of a decoder layer's recurrent state; None: it has none."""
        return self.model_size if self.is_recurrent else None


@dataclass(frozen=True)
class SpecialIds:
    """Token ids with a special meaning.

    `tags` select the target language; a model without tags has only one.
    """

    tags: dict[str, int]
    pad: int = PAD_ID
    begin: int = BEGIN_ID
    end: int = END_ID


@dataclass(frozen=True)
class Limits:
    """Limits of a request to this model, and defaults of its options."""

    max_source_tokens: int = 256
    """Tag and end symbol included."""
    max_target_tokens: int = 320
    """End symbol included."""
    max_beam_width: int = 8
    top_k: int = 16
    """Candidates per row for the widest beam: at least twice its width."""
    target_ratio: float = 2.0
    target_margin_tokens: int = 10
    length_penalty: float = 0.6
    """As in `SearchOptions`; 0.6 is the paper's value."""
    max_sentence_tokens: int | None = None
    """Longer sentences of a text are cut; None: only those that the model cannot take."""

    def __post_init__(self) -> None:
        for name in ("max_source_tokens", "max_target_tokens", "max_beam_width"):
            if getattr(self, name) < 1:
                raise UsageError(f"limits.{name} is {getattr(self, name)}: give 1 or more")
        if self.top_k < 2 * self.max_beam_width:
            raise UsageError(
                f"limits.top_k is {self.top_k}: less than twice max_beam_width, "
                f"{self.max_beam_width}"
            )
        if not (math.isfinite(self.target_ratio) and self.target_ratio >= 0):
            raise UsageError(f"limits.target_ratio is {self.target_ratio}: give 0 or more")
        if self.target_margin_tokens < 0 or self.target_tokens(1) < 1:
            raise UsageError(
                f"limits.target_margin_tokens is {self.target_margin_tokens}: give 1 or more, or 0 "
                "with a limits.target_ratio of at least 1"
            )
        if self.max_sentence_tokens is not None and not (
            FEWEST_SENTENCE_TOKENS <= self.max_sentence_tokens <= self.most_text_tokens
        ):
            raise UsageError(
                f"limits.max_sentence_tokens is {self.max_sentence_tokens}: give "
                f"{FEWEST_SENTENCE_TOKENS} to {self.most_text_tokens}"
            )
        if not 0 <= self.length_penalty <= MOST_LENGTH_PENALTY:
            raise UsageError(
                f"limits.length_penalty is {self.length_penalty}: give 0 to {MOST_LENGTH_PENALTY:g}"
            )

    @property
    def most_text_tokens(self) -> int:
        """Most tokens of a text that the model can take whole, without tag and end symbol."""
        return self.max_source_tokens - 2

    @property
    def sentence_tokens(self) -> int:
        """Default limit of a sentence's tokens; longer ones are cut."""
        return self.max_sentence_tokens or self.most_text_tokens

    @property
    def best_sizes(self) -> tuple[int, ...]:
        """Values of K for which there are top-k graphs; a beam needs twice its width."""
        sizes = [self.top_k]
        while sizes[0] % 2 == 0 and sizes[0] > _FEWEST_CANDIDATES:
            sizes.insert(0, sizes[0] // 2)
        return tuple(sizes)

    def target_tokens(self, source_tokens: int) -> int:
        """Returns the default length limit of a translation, end symbol included."""
        length = int(self.target_ratio * source_tokens) + self.target_margin_tokens
        return min(length, self.max_target_tokens)


@dataclass(frozen=True)
class TensorEntry:
    """Name, element type and shape of a graph's input or output.

    Dimensions are numbers or the project's shape letters.
    """

    name: str
    dtype: str
    shape: tuple[str, ...]


@dataclass(frozen=True)
class GraphEntry:
    """A graph and its interface."""

    file: str
    inputs: tuple[TensorEntry, ...]
    outputs: tuple[TensorEntry, ...]


Profile = dict[str, tuple[tuple[int, ...], ...]]
"""Smallest, typical and largest shape of every input."""


@dataclass(frozen=True)
class PlanEntry:
    """A TensorRT engine, and the graph and machine that it was built for.

    Plans are specific to a machine, so a bundle is complete without them.
    """

    graph: str
    file: str
    sha256: str
    precision: Literal["fp32", "fp16", "bf16", "int8", "fp8"]
    """Precision of matrix products; with an 8-bit one, the rest is as in fp16."""
    library: str
    version: str
    compute_capability: str
    """Compute capability of its GPUs, such as `8.9`."""
    platform: str
    profiles: tuple[Profile, ...]
    built_from: dict[str, str]
    """SHA-256 of the graph and the weights, by path within the bundle."""
    cache_tokens: int | None = None
    """Length C of the cache, which is fixed in a plan."""
    plain: bool = False
    """For Triton's own backend: the updated cache is a separate output tensor."""


Criterion = Literal["agreement", "anchors", "trained"]
"""How heads were chosen. agreement: how well the links of both directions agree, corrected for
agreement by position alone (0 to 1). anchors: the share of identical words that are linked.
trained: the model was trained to align words with this head; nothing was measured."""


@dataclass(frozen=True)
class AlignmentHeads:
    """The cross-attention heads that show which source tokens a token was translated from.

    Source: Chen et al. 2020, https://arxiv.org/abs/2004.14837, for `when_read`.
    """

    heads: tuple[tuple[int, int], ...]
    """Layer and head, from 0; their attention is averaged."""
    when_read: bool
    """Whether to use the step that reads the token, not the step that generates it."""
    criterion: Criterion
    value: float
    """Value of the criterion."""
    count: int
    """Number of pairs, or of anchor tokens, that it was measured on."""
    text: str
    """The text that they were taken from."""


@dataclass(frozen=True)
class Manifest:
    """The contents of `manifest.json`."""

    format_version: int
    dimensions: Dimensions
    languages: tuple[str, ...]
    special_ids: SpecialIds
    limits: Limits
    tokenizer: str
    weights: str
    """File with the graphs' tensors."""
    precision: str
    graphs: dict[str, GraphEntry]
    files: dict[str, str]
    """SHA-256 of every file of the bundle except the manifest, by path within it."""
    measured: dict[str, float] = field(default_factory=dict)
    built_with: dict[str, str] = field(default_factory=dict)
    plans: tuple[PlanEntry, ...] = ()
    alignment: AlignmentHeads | None = None
    """None until `dragoman align-heads` has chosen heads."""
    directions: tuple[tuple[str, ...], ...] = ()
    """Source and target language of each trained direction; empty: every pair."""
    tgt_tokenizer: str | None = None
    """Set if target text has another tokenizer than source text."""
    activation: Activation = "relu"
    shortlist: str | None = None
    """File of lexical shortlists; None until `dragoman shortlist` has made it."""

    def open_tokenizer(self, bundle: Path) -> Tokenizer:
        """Read a bundle's vocabulary, or its two vocabularies.

        Raises:
            UsageError: a file is not a vocabulary, or differs from the manifest.
        """
        path = bundle / self.tokenizer
        tgt_path = bundle / self.tgt_tokenizer if self.tgt_tokenizer else None
        tokenizer = Tokenizer(path, tgt_path)
        for vocabulary, name, size in (
            (tokenizer, path, self.dimensions.src_ids),
            (tokenizer.target, tgt_path or path, self.dimensions.vocab_size),
        ):
            if vocabulary.vocab_size != size:
                raise UsageError(
                    f"{name}: has {vocabulary.vocab_size} entries, the manifest says {size}"
                )
        return tokenizer

    @property
    def decoding_graphs(self) -> tuple[str, ...]:
        """Names of the graphs that decoding on a device runs."""
        states = (REORDER_STATES,) if self.dimensions.is_recurrent else ()
        return ("encoder", "decoder", "reorder", *states, *map(best_name, self.limits.best_sizes))

    @property
    def all_directions(self) -> tuple[tuple[str, ...], ...]:
        """All trained directions, listed or not."""
        return self.directions or tuple(itertools.permutations(self.languages, 2))

    @cached_property
    def identity(self) -> str:
        """SHA-256 of the bundle's files, sizes and limits, in hexadecimal.

        Fields with their default value are left out, so that a new field does not change it.
        """
        plain = dataclasses.replace(self, measured={}, built_with={}, plans=())
        written = json.dumps(_without_defaults(plain), sort_keys=True)
        return hashlib.sha256(written.encode()).hexdigest()

    @property
    def own_files(self) -> tuple[str, ...]:
        """All files of the bundle, the manifest included."""
        return (*self.files, *(plan.file for plan in self.plans), FILE_NAME)

    def write(self, bundle: Path) -> None:
        """Write `manifest.json` into a bundle."""
        text = json.dumps(dataclasses.asdict(self), indent=1) + "\n"
        with replacing(bundle / FILE_NAME) as (partial,):
            partial.write_text(text, encoding="utf-8")

    def record(self, bundle: Path, measured: dict[str, float]) -> Manifest:
        """Add measurements to a bundle's manifest and return it.

        Raises:
            UsageError: the bundle cannot be written.
        """
        recorded = dataclasses.replace(self, measured={**self.measured, **measured})
        with writing(bundle):
            recorded.write(bundle)
        return recorded

    def record_checks(
        self, bundle: Path, failed: Mapping[CheckedPrecision, int], exact_int8: bool
    ) -> Manifest:
        """Record the number of failed checks for each precision, and the kind of CPU.

        Args:
            bundle: folder of the bundle.
            failed: number of failed checks.
            exact_int8: whether ONNX Runtime's 8-bit products are exact on the CPU of the checks;
                elsewhere its int8 graphs cannot be checked.

        Raises:
            UsageError: the bundle cannot be written.
        """
        counts = {_FAILED.format(precision): float(number) for precision, number in failed.items()}
        total = {"verify: failed checks": sum(counts.values()), _EXACT_INT8: float(exact_int8)}
        return self.record(bundle, {**total, **counts})

    @property
    def checked_with_exact_int8(self) -> bool | None:
        """The kind of CPU of the recorded checks, see `record_checks`; None: not recorded."""
        recorded = self.measured.get(_EXACT_INT8)
        return None if recorded is None else bool(recorded)

    def failed_checks(self, precision: CheckedPrecision) -> int:
        """Returns the recorded number of failed checks of a precision."""
        return int(self.measured.get(_FAILED.format(precision), 0))

    def with_plan(self, plan: PlanEntry) -> Manifest:
        """Returns a copy with a plan, which replaces a plan with the same file."""
        others = [known for known in self.plans if known.file != plan.file]
        return dataclasses.replace(self, plans=(*others, plan))

    @classmethod
    def load(cls, bundle: Path) -> Manifest:
        """Read a bundle's manifest and check every file against it.

        Raises:
            UsageError: as `read`, or a file is missing or differs from the manifest.
        """
        manifest = cls.read(bundle)
        manifest.check_files(bundle)
        return manifest

    @classmethod
    def read(cls, bundle: Path) -> Manifest:
        """Read a bundle's manifest without checking the files that it lists.

        Raises:
            UsageError: no manifest, another format version, an unknown or missing key, or a path
                that leaves the bundle.
        """
        path = bundle / FILE_NAME
        if not path.exists() and (bundle / "model.safetensors").exists():
            raise UsageError(
                f"{bundle} is a checkpoint, not a bundle: run "
                f"`dragoman export onnx {bundle} --out BUNDLE` first"
            )
        values = read_json(path)
        version = values.get("format_version") if isinstance(values, dict) else None
        if version not in (FORMAT_VERSION, INT8_FORMAT_VERSION):
            raise UsageError(
                f"{path}: format_version is {version!r}, this program reads {FORMAT_VERSION} and "
                f"{INT8_FORMAT_VERSION}: export the model again"
            )
        manifest = from_mapping(cls, values, str(path))
        manifest._check(bundle)
        return manifest

    def _check(self, bundle: Path) -> None:
        path = bundle / FILE_NAME
        self._check_names(path, bundle)
        self._check_sizes(path)
        self._check_alignment(path)
        self._check_languages(path)

    def _check_names(self, path: Path, bundle: Path) -> None:
        used = (self.tokenizer, self.weights, *(graph.file for graph in self.graphs.values()))
        for name in (*used, self.tgt_tokenizer, self.shortlist):
            if name is not None and name not in self.files:
                raise UsageError(f"{path}: {name!r} is used but not listed under files")
        for name in (*self.files, *(plan.file for plan in self.plans)):
            plain = Path(name).name == name and "\0" not in name
            if not plain or not (bundle / name).resolve().is_relative_to(bundle.resolve()):
                raise UsageError(f"{path}: {name!r} leaves the bundle's folder")

    def _check_sizes(self, path: Path) -> None:
        sizes = self.dimensions
        for name, value in dataclasses.asdict(sizes).items():
            if isinstance(value, int) and value < 1:
                raise UsageError(f"{path}: dimensions.{name} is {value}")
        if not 0.0 < sizes.norm_epsilon < 1.0:
            raise UsageError(f"{path}: dimensions.norm_epsilon is {sizes.norm_epsilon}")
        if sizes.model_size % sizes.heads:
            raise UsageError(f"{path}: {sizes.heads} heads do not divide {sizes.model_size}")
        ids = self.special_ids
        if max(ids.pad, ids.begin, ids.end) >= sizes.vocab_size:
            raise UsageError(f"{path}: a special id is not below vocab_size {sizes.vocab_size}")
        if max(ids.tags.values(), default=0) >= sizes.src_ids:
            raise UsageError(f"{path}: a tag is not below {sizes.src_ids}, the ids of sources")

    def _check_alignment(self, path: Path) -> None:
        if self.alignment is None:
            return
        sizes = self.dimensions
        for pair in self.alignment.heads:
            if len(pair) != 2:
                raise UsageError(f"{path}: alignment: {list(pair)} is not a layer and a head")
            layer, head = pair
            if not (0 <= layer < sizes.decoder_layers and 0 <= head < sizes.heads):
                raise UsageError(f"{path}: alignment: there is no head {head} in layer {layer}")
        if not self.alignment.heads:
            raise UsageError(f"{path}: alignment: names no heads")

    def check_files(self, bundle: Path) -> None:
        """Check every file of a bundle against the manifest.

        Raises:
            UsageError: a file is missing, or differs from the manifest.
        """
        for name, digest in self.files.items():
            file = bundle / name
            try:
                actual = sha256(file)
            except OSError as error:
                raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
            if actual != digest:
                raise UsageError(
                    f"{file}: is not the file that {FILE_NAME} lists (SHA-256 differs)"
                )

    def _check_languages(self, path: Path) -> None:
        known = set(itertools.permutations(self.languages, 2))
        for direction in self.directions:
            if direction not in known:
                raise UsageError(f"{path}: directions: {list(direction)} are not two languages")
        targets = {direction[1] for direction in self.all_directions}
        missing = sorted(targets - self.special_ids.tags.keys())
        # Without tags, a model cannot choose between target languages.
        untold = len(targets) > 1 or self.special_ids.tags
        if len(self.languages) < 2 or (missing and untold):
            raise UsageError(f"{path}: languages {list(self.languages)} lack tags: {missing}")
        for language in self.languages:
            if not any(language in direction for direction in self.all_directions):
                raise UsageError(f"{path}: directions: none from {language!r} or into it")


def _without_defaults(value: Any) -> Any:
    """A dataclass as JSON, without fields that have their default value."""
    if not dataclasses.is_dataclass(value):
        if isinstance(value, dict):
            return {name: _without_defaults(part) for name, part in value.items()}
        return [_without_defaults(part) for part in value] if isinstance(value, tuple) else value
    changed = {}
    for attribute in dataclasses.fields(value):
        known = (
            attribute.default_factory()
            if callable(attribute.default_factory)
            else attribute.default
        )
        if (now := getattr(value, attribute.name)) != known:
            changed[attribute.name] = _without_defaults(now)
    return changed


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file, in hexadecimal.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digests(bundle: Path, names: Iterable[str]) -> dict[str, str]:
    """Returns the SHA-256 of files in a bundle, by path within it."""
    return {name: sha256(bundle / name) for name in sorted(names)}

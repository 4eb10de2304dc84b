"""What is asked and what is answered, as tensors and as objects.

Knows the tensors of Triton's model `translate`; must not know sockets, threads or tritonclient.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypedDict

import numpy as np
import numpy.typing as npt

from dragoman_client.assessment import (
    ALIGNMENT_FORMS,
    AlignmentForm,
    Alignments,
    TokenScores,
    parse_alignments,
)
from dragoman_client.errors import ServerError

MODEL: Final = "translate"
"""Name of the model on the server."""

STREAM_MODEL: Final = "translate_stream"
"""Name of the model that answers in parts."""

SCORE_MODEL: Final = "score"
"""Name of the model that scores given translations."""

OUTPUTS: Final = ("text_output", "output_tokens", "finish_reason")
"""Names of the tensors that the server answers with, each of shape [1, N]."""

SCORES: Final = "scores"
"""Name of the one that it answers with beside them if it is asked for."""

ASSESSMENTS: Final = ("token_scores", "alignments", "confidences")
"""Names of further ones of that kind."""

Array = npt.NDArray[Any]

_MAX_INT32 = 2**31 - 1


class OptionArguments(TypedDict, total=False):
    """The fields of `TranslationOptions` as keyword arguments."""

    source_language: str | None
    target_language: str | None
    max_tokens: int | None
    beam_width: int | None
    length_penalty: float | None
    split_sentences: bool | None
    num_return_sequences: int | None
    return_scores: bool | None
    return_token_scores: bool | None
    return_alignments: AlignmentForm | None
    return_confidence: bool | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class TranslationOptions:
    """How to translate; what is None is the server's choice.

    Args:
        source_language: language of the texts, such as "en", or "auto": found out text by text.
        target_language: language to translate into, such as "de".
        max_tokens: most tokens to write for a text, at least 1.
        beam_width: hypotheses that the search keeps, at least 1; 1 is greedy.
        length_penalty: exponent of the length by which scores are divided; higher favours longer.
        split_sentences: whether the server cuts a text into sentences and translates each.
        num_return_sequences: how many translations of each text are wanted, at most the beam's
            width; the others are `Translation.alternatives`.
        return_scores: whether the translations' scores are wanted.
        return_token_scores: whether the log-probabilities of their tokens are wanted.
        return_alignments: "hard" for links between words, "soft" for the weights behind them.
        return_confidence: whether the log-probability of a token, on average, is wanted.

    Raises:
        TypeError: a value of another type; True is no number.
        ValueError: a value out of range.
    """

    source_language: str | None = None
    target_language: str | None = None
    max_tokens: int | None = None
    beam_width: int | None = None
    length_penalty: float | None = None
    split_sentences: bool | None = None
    num_return_sequences: int | None = None
    return_scores: bool | None = None
    return_token_scores: bool | None = None
    return_alignments: AlignmentForm | None = None
    return_confidence: bool | None = None

    def __post_init__(self) -> None:
        """Check types and ranges."""
        for name in ("source_language", "target_language"):
            self._check_type(name, str)
            if getattr(self, name) == "":
                raise ValueError(f"{name} is empty: give a language such as 'de', or None")
        for name in ("max_tokens", "beam_width", "num_return_sequences"):
            self._check_type(name, int)
            value = getattr(self, name)
            if value is not None and not 1 <= value <= _MAX_INT32:
                raise ValueError(f"{name} is {value}: it must lie in 1..{_MAX_INT32}")
        self._check_type("length_penalty", int, float)
        if self.length_penalty is not None and not _fits_float32(self.length_penalty):
            raise ValueError(f"length_penalty is {self.length_penalty}: it must be finite")
        self._check_type("split_sentences", bool)
        for name in ("return_scores", "return_token_scores", "return_confidence"):
            self._check_type(name, bool)
        self._check_type("return_alignments", str)
        if self.return_alignments not in (None, *ALIGNMENT_FORMS):
            raise ValueError(
                f"return_alignments is {self.return_alignments!r}: give one of {ALIGNMENT_FORMS}"
            )

    @property
    def assessed(self) -> tuple[str, ...]:
        """Outputs with what the model thinks of its translations, as far as they are wanted."""
        wanted = (self.return_token_scores, self.return_alignments, self.return_confidence)
        return tuple(name for name, one in zip(ASSESSMENTS, wanted, strict=True) if one)

    def _check_type(self, name: str, *types: type) -> None:
        """Refuse a value of another type; bool is an int to Python, but not here."""
        value = getattr(self, name)
        if value is None or (type(value) is bool and bool in types):
            return
        if type(value) is bool or not isinstance(value, types):
            expected = " or ".join(kind.__name__ for kind in types)
            raise TypeError(f"{name} must be {expected}, got {type(value).__name__}")


@dataclasses.dataclass(frozen=True)
class Translation:
    """One translated text.

    Attributes:
        text: the translation.
        output_tokens: how many tokens it has.
        finish_reason: "stop", or "length" where the limit of tokens cut it.
        score: the sum of the tokens' log-probabilities over the length penalty, where
            `return_scores` asked for it.
        alternatives: further translations of the text, best first, where `num_return_sequences`
            asked for them.
        elapsed_s: from sending its request to reading its answer, or as far as it is read, retries
            included; does not count when translations are compared.
        token_scores: where `return_token_scores` asked for them.
        alignments: in the form for which `return_alignments` asked.
        confidence: the log-probability of a token on average, the end symbol included, where
            `return_confidence` asked for it.
    """

    text: str
    output_tokens: int
    finish_reason: str
    score: float | None = None
    alternatives: tuple[Translation, ...] = ()
    elapsed_s: float = dataclasses.field(default=0.0, compare=False)
    token_scores: TokenScores | None = None
    alignments: Alignments | None = None
    confidence: float | None = None


def build_stream_inputs(text: str, options: TranslationOptions) -> dict[str, Array]:
    """As `build_inputs`, of one text whose translation comes in parts.

    Raises:
        TypeError: see `build_inputs`.
        ValueError: see `build_inputs`; or options that a stream has no place for.
    """
    if options.return_scores or (options.num_return_sequences or 1) > 1:
        raise ValueError("a stream has one translation, without a score")
    if options.assessed:
        raise ValueError(f"a stream has no {options.assessed[0]}: use translate")
    return build_inputs([text], options)


def build_inputs(
    texts: Sequence[str], options: TranslationOptions, first_index: int = 0
) -> dict[str, Array]:
    """Write texts and options as the model's input tensors.

    Args:
        texts: N texts.
        options: what is None is left out.
        first_index: place of the first text among all of the caller's, for messages.

    Returns:
        Tensors by name: `text_input` object [1, N] of UTF-8 bytes, options each of shape [1, 1].

    Raises:
        TypeError: a text that is no `str`.
        ValueError: a text that UTF-8 cannot write.
    """
    inputs = {"text_input": encode_texts(texts, first_index=first_index)}
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if isinstance(value, str):
            inputs[field.name] = np.array([[_encode(value, field.name)]], dtype=np.object_)
        elif isinstance(value, bool):
            inputs[field.name] = np.array([[value]], dtype=np.bool_)
        elif field.name == "length_penalty" and value is not None:
            inputs[field.name] = np.array([[value]], dtype=np.float32)
        elif value is not None:
            inputs[field.name] = np.array([[value]], dtype=np.int32)
    return inputs


def read_outputs(
    outputs: Mapping[str, Array | None],
    count: int,
    elapsed_s: float,
    options: TranslationOptions | None = None,
) -> list[Translation]:
    """Read the model's answer.

    Args:
        outputs: tensors by name, each of shape [1, N x K], the K translations of a text next to
            each other: `text_output` and `finish_reason` object of UTF-8 bytes, `output_tokens`
            int32, `scores` float32; None: the server did not send it.
        count: N, how many texts were sent.
        elapsed_s: since they were.
        options: that they were sent with, K among them.

    Raises:
        ServerError: a tensor is missing, of another length, not UTF-8, or not what it should hold.
    """
    options = options or TranslationOptions()
    each = options.num_return_sequences or 1
    columns = _columns(outputs, OUTPUTS, count * each)
    assessments = read_assessments(outputs, count * each, options)
    with _faults():
        found = [
            Translation(
                text.decode("utf-8"),
                int(tokens),
                reason.decode("utf-8"),
                elapsed_s=elapsed_s,
                **assessment,
            )
            for text, tokens, reason, assessment in zip(*columns, assessments, strict=True)
        ]
    if each == 1:
        return found
    return [
        dataclasses.replace(found[i], alternatives=tuple(found[i + 1 : i + each]))
        for i in range(0, len(found), each)
    ]


def read_assessments(
    outputs: Mapping[str, Array | None], count: int, options: TranslationOptions
) -> list[dict[str, Any]]:
    """Read what the model thinks of its translations, as far as it was asked for.

    Args:
        outputs: see `read_outputs`.
        count: how many translations there are.
        options: that say what was asked for.

    Returns:
        Fields of `Translation` by name.

    Raises:
        ServerError: a tensor is missing, of another length, or not what it should hold.
    """
    form = options.return_alignments or ""
    readers: dict[str, tuple[str, Callable[[Any], Any]]] = {
        SCORES: ("score", float),
        "token_scores": ("token_scores", lambda value: TokenScores.parse(value.decode("utf-8"))),
        "alignments": ("alignments", lambda value: parse_alignments(value.decode("utf-8"), form)),
        "confidences": ("confidence", float),
    }
    names = (*((SCORES,) if options.return_scores else ()), *options.assessed)
    fields: list[dict[str, Any]] = [{} for _ in range(count)]
    with _faults():
        for name, column in zip(names, _columns(outputs, names, count), strict=True):
            field, read = readers[name]
            for of_one, value in zip(fields, column, strict=True):
                of_one[field] = read(value)
    return fields


@contextlib.contextmanager
def _faults() -> Iterator[None]:
    """What values that are not what they should be mean."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ServerError(f"the answer is not UTF-8: {error}") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise ServerError(f"the answer has tensors of other types: {error}") from error


def _columns(outputs: Mapping[str, Array | None], names: Sequence[str], count: int) -> list[Array]:
    """Tensors [N] of these names.

    Raises:
        ServerError: one is missing, or of another length.
    """
    columns = []
    for name in names:
        values = outputs.get(name)
        if values is None:
            raise ServerError(f"the answer lacks {name}: is this a Dragoman server?")
        if values.shape != (1, count):
            raise ServerError(f"{name} has shape {list(values.shape)}: expected [1, {count}]")
        columns.append(values[0])
    return columns


def encode_texts(texts: Sequence[str], what: str = "text", first_index: int = 0) -> Array:
    """Texts as an object tensor [1, N] of UTF-8 bytes.

    Raises:
        TypeError: a text that is no `str`.
        ValueError: a text that UTF-8 cannot write.
    """
    encoded = [_encode(text, f"{what} {first_index + i}") for i, text in enumerate(texts)]
    return np.array([encoded], dtype=np.object_)


def _encode(text: str, what: str) -> bytes:
    """UTF-8 of a text."""
    if not isinstance(text, str):
        raise TypeError(f"{what} must be str, got {type(text).__name__}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} holds a lone surrogate at character {error.start}") from error


def _fits_float32(value: float) -> bool:
    """Whether a number is finite, also as float32."""
    return math.isfinite(value) and abs(value) <= float(np.finfo(np.float32).max)

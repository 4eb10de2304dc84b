"""What is asked and what is answered, as tensors and as objects.

Knows the tensors of Triton's model `translate`; must not know sockets, threads or tritonclient.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict

import numpy as np
import numpy.typing as npt

from dragoman_client.errors import ServerError

MODEL: Final = "translate"
"""Name of the model on the server."""

STREAM_MODEL: Final = "translate_stream"
"""Name of the model that answers in parts."""

OUTPUTS: Final = ("text_output", "output_tokens", "finish_reason")
"""Names of the tensors that the server answers with, each of shape [1, N]."""

SCORES: Final = "scores"
"""Name of the one that it answers with beside them if it is asked for."""

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
    max_sentence_tokens: int | None


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
        return_scores: whether the translations' scores are wanted, which greedy search has not.
        max_sentence_tokens: with `split_sentences`, longer sentences are cut, best at the end of a
            clause.

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
    max_sentence_tokens: int | None = None

    def __post_init__(self) -> None:
        """Check types and ranges."""
        for name in ("source_language", "target_language"):
            self._check_type(name, str)
            if getattr(self, name) == "":
                raise ValueError(f"{name} is empty: give a language such as 'de', or None")
        for name in ("max_tokens", "beam_width", "num_return_sequences", "max_sentence_tokens"):
            self._check_type(name, int)
            value = getattr(self, name)
            if value is not None and not 1 <= value <= _MAX_INT32:
                raise ValueError(f"{name} is {value}: it must lie in 1..{_MAX_INT32}")
        self._check_type("length_penalty", int, float)
        if self.length_penalty is not None and not _fits_float32(self.length_penalty):
            raise ValueError(f"length_penalty is {self.length_penalty}: it must be finite")
        self._check_type("split_sentences", bool)
        self._check_type("return_scores", bool)

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
    """

    text: str
    output_tokens: int
    finish_reason: str
    score: float | None = None
    alternatives: tuple[Translation, ...] = ()
    elapsed_s: float = dataclasses.field(default=0.0, compare=False)


def build_stream_inputs(text: str, options: TranslationOptions) -> dict[str, Array]:
    """As `build_inputs`, of one text whose translation comes in parts.

    Raises:
        TypeError: see `build_inputs`.
        ValueError: see `build_inputs`; or options that a stream has no place for.
    """
    if options.return_scores or (options.num_return_sequences or 1) > 1:
        raise ValueError("a stream has one translation, without a score")
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
    encoded = [_encode(text, f"text {first_index + i}") for i, text in enumerate(texts)]
    inputs: dict[str, Array] = {"text_input": np.array([encoded], dtype=np.object_)}
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
        ServerError: a tensor is missing, of another length, or not UTF-8.
    """
    options = options or TranslationOptions()
    each = options.num_return_sequences or 1
    names = (*OUTPUTS, SCORES) if options.return_scores else OUTPUTS
    columns = []
    for name in names:
        values = outputs.get(name)
        if values is None:
            raise ServerError(f"the answer lacks {name}: is this a Dragoman server?")
        if values.shape != (1, count * each):
            expected = f"expected [1, {count * each}]"
            raise ServerError(f"{name} has shape {list(values.shape)}: {expected}")
        columns.append(values[0])
    try:
        found = [
            Translation(
                text.decode("utf-8"),
                int(tokens),
                reason.decode("utf-8"),
                float(score[0]) if score else None,
                elapsed_s=elapsed_s,
            )
            for text, tokens, reason, *score in zip(*columns, strict=True)
        ]
        if each == 1:
            return found
        return [
            dataclasses.replace(found[i], alternatives=tuple(found[i + 1 : i + each]))
            for i in range(0, len(found), each)
        ]
    except UnicodeDecodeError as error:
        raise ServerError(f"the answer is not UTF-8: {error}") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise ServerError(f"the answer has tensors of other types: {error}") from error


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

"""What is asked and what is answered, as tensors and as objects."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from dragoman_client.assessment import Alignments, Attention, TokenScores, parse_alignments
from dragoman_client.errors import ServerError
from dragoman_client.options import Array, TranslationOptions, encode

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

Part = Mapping[str, Array | None]
"""Outputs by name, each of shape [1, 1]: a part of an answer that comes as a stream."""

ENDED_EARLY: Final = "the answer ended before its last part"
_LAST = (b"stop", b"length")
"""Reasons to end, in the last part of a stream."""


def microseconds(seconds: float) -> int:
    """A deadline in the unit that Triton takes; requests carry it, so the server stops as well."""
    return max(1, int(seconds * 1e6))


def is_last(part: Part) -> bool:
    """Whether a part of a stream is its last one."""
    reasons = part["finish_reason"]
    return reasons is not None and bool(reasons.size) and reasons[0, 0] in _LAST


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
        attention: where `return_attention` asked for it.
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
    attention: Attention | None = None


def build_stream_inputs(text: str, options: TranslationOptions) -> dict[str, Array]:
    """As `build_inputs`, of one text whose translation comes in parts.

    Raises:
        TypeError: see `build_inputs`.
        ValueError: see `build_inputs`; or options that a stream has no place for.
    """
    if options.return_scores or (options.num_return_sequences or 1) > 1:
        raise ValueError("a stream has one translation, without a score")
    for name in ("keep_placeholders", "coverage_penalty"):
        if getattr(options, name):
            raise ValueError(f"a stream comes as it is found, without {name}: use translate")
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
    return inputs | options.tensors()


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
        "attention": ("attention", lambda value: Attention.parse(value.decode("utf-8"))),
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
    encoded = [encode(text, f"{what} {first_index + i}") for i, text in enumerate(texts)]
    return np.array([encoded], dtype=np.object_)

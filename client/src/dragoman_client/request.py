"""Translation requests and answers: conversion between objects and tensors."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from dragoman_options.assessment import Alignments, Attention, TokenScores, parse_alignments
from dragoman_options.markup import PlacedCodes
from dragoman_options.table import OUTPUTS, TRANSLATE, requested_outputs

from dragoman_client.errors import IncompleteAnswer, ServerError
from dragoman_client.tensors import Array, option_tensors, text_tensor

ALWAYS: Final = tuple(one.name for one in OUTPUTS.values() if TRANSLATE in one.always)
"""Names of the tensors in every answer, each of shape [1, N]."""

Part = Mapping[str, Array | None]
"""One part of a streamed answer: outputs by name, each of shape [1, 1]."""

ENDED_EARLY: Final = "the answer ended before its last part"
_NO_OPTIONS: Mapping[str, Any] = {}
_LAST = (b"stop", b"length")
"""The values of `finish_reason` in the last part of a stream."""
REPEATED = "repeated"
"""The `finish_reason` of a translation that only fills up the requested number."""


def microseconds(seconds: float) -> int:
    """A timeout in Triton's unit; requests carry it, so that the server stops as well."""
    return max(1, int(seconds * 1e6))


def is_last(part: Part) -> bool:
    """Whether this is the last part of a stream."""
    reasons = part.get("finish_reason")
    return reasons is not None and bool(reasons.size) and reasons[0, 0] in _LAST


def has_text(part: Part) -> bool:
    """Whether this part of a stream has text."""
    texts = part.get("text_output")
    return texts is None or any(texts.reshape(-1))


@dataclasses.dataclass(frozen=True)
class Translation:
    """One translated text.

    Attributes:
        text: the translation.
        output_tokens: number of tokens.
        finish_reason: "stop", or "length" if the token limit cut the translation.
        score: the sum of the tokens' log-probabilities, divided by the length penalty. None
            unless an option requested it, like the fields after `elapsed_s`.
        alternatives: more translations of the text, best first, if `num_return_sequences`
            requested them; all different, so there may be fewer.
        elapsed_s: time from sending the request to reading this answer, or this part of it, with
            retries; ignored when translations are compared.
        token_scores: the tokens and their log-probabilities.
        alignments: links between words, or the weights behind them.
        confidence: mean log-probability of the tokens, including the end-of-sequence token.
        attention: the weights of every head.
        bundle: identity of the bundle that translated; with a pivot language both, separated by a
            comma.
        detected_language: language of the text if `source_language` was "auto"; None also if the
            text has no detectable language.
        detected_probability: probability of the detected language, from 0 to 1.
        warnings: "numbers", "placeholders", "signs" or "terms" (of the glossary) if the translation
            lacks some; "repetition", "short", "long" or "untranslated" if one of a sentence is
            suspicious; docs/options.md has the rules.
        language_fallbacks: requested codes of languages, each with the model's code that was used
            instead, such as "zh-CN=cmn_Hans".
        codes: positions of the markup codes in the translation.
        via: the pivot language, such as "en"; None for a direct translation.
        delta: in a stream, the text that this part adds to the previous one.
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
    bundle: str | None = None
    detected_language: str | None = None
    detected_probability: float | None = None
    warnings: tuple[str, ...] = ()
    language_fallbacks: tuple[str, ...] = ()
    codes: PlacedCodes | None = None
    via: str | None = None
    delta: str | None = dataclasses.field(default=None, compare=False)


def build_inputs(
    texts: Sequence[str], options: Mapping[str, Any], first_index: int = 0
) -> dict[str, Array]:
    """Convert texts and options to the model's input tensors.

    Args:
        texts: N texts.
        options: options by name, as `dragoman_options.table.check` returns them.
        first_index: index of the first text among all texts of the caller, for messages.

    Returns:
        Tensors by name: `text_input` object [1, N] of UTF-8 bytes, options each of shape
        [1, values].

    Raises:
        TypeError: a text is not a `str`.
        ValueError: a text cannot be encoded in UTF-8.
    """
    return {"text_input": text_tensor(texts, first_index=first_index)} | option_tensors(options)


def read_outputs(
    outputs: Mapping[str, Array | None],
    count: int,
    elapsed_s: float,
    options: Mapping[str, Any] = _NO_OPTIONS,
) -> list[Translation]:
    """Parse the model's answer.

    Args:
        outputs: tensors by name, each of shape [1, N x K], where the K translations of a text are
            adjacent: `text_output` and `finish_reason` are objects of UTF-8 bytes, `output_tokens`
            int32, `scores` float32; None if the server did not send the tensor.
        count: N, the number of texts in the request.
        elapsed_s: time since the request was sent.
        options: the options of the request by name, including K (`num_return_sequences`).

    Raises:
        ServerError: a tensor is missing, or has the wrong length, type or encoding.
    """
    each = options.get("num_return_sequences", 1)
    columns = _columns(outputs, ALWAYS, count * each)
    warnings, fallbacks, pivots = (
        [b""] * (count * each) if given is None else given.reshape(-1)
        for given in map(outputs.get, ("warnings", "language_fallbacks", "via"))
    )
    assessments = read_assessments(outputs, count * each, options)
    with _faults():
        found = [
            Translation(
                text.decode("utf-8"),
                int(tokens),
                reason.decode("utf-8"),
                elapsed_s=elapsed_s,
                warnings=_listed(names),
                language_fallbacks=_listed(codes),
                via=pivot.decode("utf-8") or None,
                **assessment,
            )
            for text, tokens, reason, names, codes, pivot, assessment in zip(
                *columns, warnings, fallbacks, pivots, assessments, strict=True
            )
        ]
    if each == 1:
        return found
    return [
        dataclasses.replace(
            found[i],
            alternatives=tuple(
                other for other in found[i + 1 : i + each] if other.finish_reason != REPEATED
            ),
        )
        for i in range(0, len(found), each)
    ]


def _listed(names: bytes) -> tuple[str, ...]:
    """Names that are separated by commas."""
    return tuple(filter(None, names.decode("utf-8").split(",")))


def read_assessments(
    outputs: Mapping[str, Array | None],
    count: int,
    options: Mapping[str, Any],
    model: str = TRANSLATE,
) -> list[dict[str, Any]]:
    """Parse the optional outputs that the request asked for.

    Args:
        outputs: see `read_outputs`.
        count: number of translations.
        options: options of the request by name.
        model: name of the model that answered.

    Returns:
        Fields of `Translation` by name.

    Raises:
        ServerError: a tensor is missing, or has the wrong length or content.
    """
    form = options.get("return_alignments", "")
    readers: dict[str, tuple[str, Callable[[Any], Any]]] = {
        "scores": ("score", float),
        "token_scores": ("token_scores", lambda value: TokenScores.parse(value.decode("utf-8"))),
        "alignments": ("alignments", lambda value: parse_alignments(value.decode("utf-8"), form)),
        "confidences": ("confidence", float),
        "attention": ("attention", lambda value: Attention.parse(value.decode("utf-8"))),
        "detected_language": ("detected_language", lambda value: value.decode("utf-8") or None),
        "detected_probability": ("detected_probability", float),
        "bundle": ("bundle", lambda value: value.decode("utf-8")),
        "codes": ("codes", lambda value: PlacedCodes.parse(value.decode("utf-8"))),
    }
    names = [name for name in requested_outputs(options) if model in OUTPUTS[name].models]
    fields: list[dict[str, Any]] = [{} for _ in range(count)]
    with _faults():
        for name, column in zip(names, _columns(outputs, names, count), strict=True):
            field, read = readers[name]
            for of_one, value in zip(fields, column, strict=True):
                of_one[field] = read(value)
    return fields


@contextlib.contextmanager
def _faults() -> Iterator[None]:
    """Turn exceptions about malformed values into `ServerError`."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ServerError(f"the answer is not UTF-8: {error}") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise ServerError(f"the answer has tensors of the wrong type: {error}") from error


def _columns(outputs: Mapping[str, Array | None], names: Sequence[str], count: int) -> list[Array]:
    """Returns the tensors with these names, each of shape [N].

    Raises:
        ServerError: a tensor is missing or has another length.
    """
    columns = []
    for name in names:
        values = outputs.get(name)
        if values is None:
            raise IncompleteAnswer(f"the answer lacks {name}: is this a Dragoman server?")
        if values.shape != (1, count):
            raise ServerError(f"{name} has shape {list(values.shape)}: expected [1, {count}]")
        columns.append(values[0])
    return columns

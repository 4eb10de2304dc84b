"""Translation requests and answers: conversion between objects and tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dragoman_options.table import (
    OUTPUTS,
    SCORE,
    STREAM,
    TRANSLATE,
    Translation,
    requested_outputs,
)

from dragoman_client.core.errors import IncompleteAnswer, ServerError
from dragoman_client.core.tensors import Values, option_values, text_values

ALWAYS: Final = tuple(output.name for output in OUTPUTS.values() if TRANSLATE in output.always)
"""Names of the tensors in every answer, each of shape [1, N]."""

_REQUIRED = {
    model: [name for name, output in OUTPUTS.items() if model in output.always]
    for model in (TRANSLATE, SCORE)
}
_MAY_COME = {name for name, output in OUTPUTS.items() if output.if_any or STREAM in output.always}
"""Outputs that an answer may have although nothing requests them."""

Part = Mapping[str, Values | None]
"""One part of a streamed answer: outputs by name, each with one element."""

ENDED_EARLY: Final = "the answer ended before its last part"
_NO_OPTIONS: Mapping[str, Any] = {}
_MALFORMED = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError)
"""Exceptions from values of another form."""
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
    return bool(reasons and reasons[0] in _LAST)


def has_text(part: Part) -> bool:
    """Whether this part of a stream has text."""
    texts = part.get("text_output")
    return texts is None or any(texts)


def build_inputs(
    texts: Sequence[str], options: Mapping[str, Any], first_index: int = 0
) -> dict[str, Values]:
    """Convert texts and options to the model's inputs.

    Args:
        texts: N texts.
        options: options by name, as `dragoman_options.table.check` returns them.
        first_index: index of the first text among all texts of the caller, for messages.

    Returns:
        Elements of tensors by name: `text_input` has the N texts.

    Raises:
        TypeError: a text is not a `str`.
        ValueError: a text cannot be encoded in UTF-8.
    """
    return {"text_input": text_values(texts, first_index=first_index)} | option_values(options)


def read_outputs(
    outputs: Mapping[str, Values | None],
    count: int,
    elapsed_s: float,
    options: Mapping[str, Any] = _NO_OPTIONS,
) -> list[Translation]:
    """Parse the model's answer.

    Args:
        outputs: elements of tensors by name, N x K each, where the K translations of a text are
            adjacent; None if the server did not send the tensor.
        count: N, the number of texts in the request.
        elapsed_s: time since the request was sent.
        options: the options of the request by name, including K (`num_return_sequences`).

    Raises:
        ServerError: a tensor is missing, or has the wrong length, type or encoding.
    """
    each = options.get("num_return_sequences", 1)
    rows = read_fields(outputs, count * each, options, TRANSLATE)
    translations = [Translation(elapsed_s=elapsed_s, **row) for row in rows]
    if each == 1:
        return translations
    return [
        dataclasses.replace(
            translations[i],
            alternatives=tuple(
                other for other in translations[i + 1 : i + each] if other.finish_reason != REPEATED
            ),
        )
        for i in range(0, len(translations), each)
    ]


def read_fields(
    outputs: Mapping[str, Values | None], count: int, options: Mapping[str, Any], model: str
) -> list[dict[str, Any]]:
    """Parse the outputs of an answer.

    Args:
        outputs: see `read_outputs`.
        count: number of translations.
        options: options of the request by name.
        model: name of the model that answered; that of a stream too is "translate", because only
            some servers send `delta`.

    Returns:
        Values by field, for each translation.

    Raises:
        ServerError: a tensor is missing, or has the wrong length or content.
    """
    requested = [name for name in requested_outputs(options) if model in OUTPUTS[name].models]
    others = [name for name, v in outputs.items() if v is not None and name in _MAY_COME]
    columns: dict[str, Values] = {}
    try:
        for name in dict.fromkeys((*_REQUIRED[model], *requested, *others)):
            output, column = OUTPUTS[name], _column(outputs, name, count)
            if output.codec.datatype == "BYTES":
                column = [element.decode("utf-8") for element in column]
            parse = output.codec.parse
            columns[output.field] = [parse(element, options) for element in column]
    except UnicodeDecodeError as error:
        raise ServerError(f"the answer is not UTF-8: {error}") from error
    except _MALFORMED as error:
        raise ServerError(f"the answer has tensors of the wrong type: {error}") from error
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _column(outputs: Mapping[str, Values | None], name: str, count: int) -> Values:
    """Returns the elements of the tensor with this name."""
    values = outputs.get(name)
    if values is None:
        raise IncompleteAnswer(f"the answer lacks {name}: is this a Dragoman server?")
    if len(values) != count:
        raise ServerError(f"{name} has {len(values)} elements: expected {count}")
    return values

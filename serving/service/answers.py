"""Answers to requests: translations, and errors under Triton's codes."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dragoman.errors import DragomanError
from serving.service.frames import Answer, DataType, ErrorCode, Failure, Tensor
from serving.translator import Translation

log = logging.getLogger(__name__)

FINISHED, CUT, GOING_ON = "stop", "length", ""
"""Why a translation ends where it ends."""
_LONGEST_MESSAGE = 500
"""Characters: it may quote what was asked, which may be long."""
_CODES = {
    "InvalidRequest": ErrorCode.INVALID_ARG,
    "Overloaded": ErrorCode.UNAVAILABLE,
    "Closed": ErrorCode.UNAVAILABLE,
    "DeadlineExceeded": ErrorCode.CANCELLED,
    "CancelledError": ErrorCode.CANCELLED,
}


_STATUSES = {
    ErrorCode.INVALID_ARG: "INVALID_ARGUMENT",
    ErrorCode.UNAVAILABLE: "UNAVAILABLE",
    ErrorCode.CANCELLED: "CANCELLED",
    ErrorCode.INTERNAL: "INTERNAL",
}


@dataclass(frozen=True)
class Form:
    """How a client wants its answer: which outputs, and in the shape of its texts."""

    number: int
    """Of the request."""
    outputs: Collection[str]
    shape: tuple[int, ...]
    scores: bool = False
    """Whether they were asked for."""


def of_translations(translations: Sequence[Translation], form: Form) -> Answer:
    """The last answer to a request: one element a text, or several that follow each other."""
    all_of_them = [one for best in translations for one in (best, *best.others)]
    each = len(all_of_them) // len(translations)
    form = replace(form, shape=(*form.shape[:-1], form.shape[-1] * each))
    reasons = [FINISHED if t.complete else CUT for t in all_of_them]
    tokens = [translation.output_tokens for translation in all_of_them]
    texts = [translation.text for translation in all_of_them]
    scores = [t.score for t in all_of_them if t.score is not None] if form.scores else []
    return Answer(form.number, _outputs(texts, tokens, reasons, form, scores))


def of_beginning(text: str, form: Form) -> Answer:
    """An answer with what is certain of a translation so far, which others follow."""
    return Answer(form.number, _outputs([text], [0], [GOING_ON], form), last=False)


def of_error(error: BaseException, number: int) -> Failure:
    """The last answer to a request that failed."""
    kind = type(error).__name__
    if kind not in _CODES:
        log.error("a request failed: %s", kind)  # its message might quote the text
    message = str(error) if isinstance(error, DragomanError) else f"the request failed: {kind}"
    if len(message) > _LONGEST_MESSAGE:
        message = message[:_LONGEST_MESSAGE] + "..."
    return Failure(number, _CODES.get(kind, ErrorCode.INTERNAL), message)


def of_stream_error(error: BaseException, number: int) -> Failure:
    """The last answer to a request that failed, where no status travels along.

    Triton sends an error in a stream as a message and nothing else, so gRPC's name of the status
    stands before it: `INVALID_ARGUMENT: text 0 is empty`.
    """
    failure = of_error(error, number)
    return replace(failure, message=f"{_STATUSES[failure.code]}: {failure.message}")


def _outputs(
    texts: Sequence[str],
    tokens: Sequence[int],
    reasons: Sequence[str],
    form: Form,
    scores: Sequence[float] = (),
) -> tuple[Tensor, ...]:
    columns: dict[str, tuple[DataType, Sequence[Any]]] = {
        "text_output": (DataType.BYTES, [text.encode("utf-8") for text in texts]),
        "output_tokens": (DataType.INT32, tokens),
        "finish_reason": (DataType.BYTES, [reason.encode() for reason in reasons]),
    }
    if scores:
        columns["scores"] = (DataType.FP32, scores)
    return tuple(
        Tensor.of(name, datatype, form.shape, values)
        for name, (datatype, values) in columns.items()
        if name in form.outputs
    )

"""Answers to requests: translations, what the model thinks of them, errors under Triton's codes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dragoman.kernel.errors import as_dragoman_error
from dragoman_serving.request.outputs import Outputs
from dragoman_serving.request.plan import ScoringPlan
from dragoman_serving.scoring.assessment import Assessment
from dragoman_serving.service.frames import Answer, DataType, ErrorCode, Failure, Tensor
from dragoman_serving.translation.translation import Translation

log = logging.getLogger(__name__)

Columns = dict[str, tuple[DataType, Sequence[Any]]]
"""Outputs by name: type, and an element for each translation."""

FINISHED, CUT, GOING_ON = "stop", "length", ""
"""Why a translation ends where it ends."""
_OF_ASSESSMENTS: dict[str, Callable[[Assessment], str]] = {
    "token_scores": lambda one: one.token_scores,
    "alignments": lambda one: one.alignment or "",
    "attention": lambda one: one.attention.to_json() if one.attention else "",
}
"""Outputs made of an assessment, by their names among `Outputs` and to Triton."""
_LONGEST_MESSAGE = 500
"""Characters: it may quote what was asked, which may be long."""


@dataclass(frozen=True)
class Form:
    """How a client wants its answer: which outputs, and in the shape of its texts."""

    number: int
    """Of the request."""
    outputs: Collection[str]
    shape: tuple[int, ...]


def of_translations(translations: Sequence[Translation], wanted: Outputs, form: Form) -> Answer:
    """The last answer to a request: one element a text, or several that follow each other."""
    all_of_them = [one for best in translations for one in (best, *best.others)]
    each = len(all_of_them) // len(translations)
    form = replace(form, shape=(*form.shape[:-1], form.shape[-1] * each))
    reasons = [FINISHED if t.complete else CUT for t in all_of_them]
    tokens = [translation.output_tokens for translation in all_of_them]
    texts = [translation.text for translation in all_of_them]
    more: Columns = {}
    scores = [t.score for t in all_of_them if t.score is not None]
    if wanted.scores and scores:
        more["scores"] = (DataType.FP32, scores)
    confidences = [t.confidence for t in all_of_them if t.confidence is not None]
    if wanted.confidence and confidences:
        more["confidences"] = (DataType.FP32, confidences)
    if assessments := [t.assessment for t in all_of_them if t.assessment is not None]:
        more |= _assessed(assessments, wanted)
    return Answer(form.number, _outputs(texts, tokens, reasons, form, more))


def of_assessments(assessments: Sequence[Assessment], plan: ScoringPlan, form: Form) -> Answer:
    """The last answer to a request for scores of given translations."""
    columns: Columns = {"scores": (DataType.FP32, [one.score(plan.alpha) for one in assessments])}
    columns |= _assessed(assessments, plan.outputs)
    columns["confidences"] = (DataType.FP32, [one.confidence for one in assessments])
    return Answer(form.number, _tensors(columns, form))


def _assessed(assessments: Sequence[Assessment], wanted: Outputs) -> Columns:
    """The outputs that assessments hold."""
    return {
        name: (DataType.BYTES, [text_of(one).encode("utf-8") for one in assessments])
        for name, text_of in _OF_ASSESSMENTS.items()
        if getattr(wanted, name)
    }


def of_beginning(text: str, form: Form) -> Answer:
    """An answer with what is certain of a translation so far, which others follow."""
    return Answer(form.number, _outputs([text], [0], [GOING_ON], form), last=False)


def of_error(error: BaseException, number: int) -> Failure:
    """The last answer to a request that failed.

    Triton 24.10 sends every failure of a model as 400 over HTTP's `/generate`. So the message of
    one that is not the request's fault begins with gRPC's name of its status, as in
    `UNAVAILABLE: ...`.
    """
    known = as_dragoman_error(error)
    if known.status == "INTERNAL":
        log.error("a request failed: %s", type(error).__name__)  # its message might quote the text
    message = str(known)
    if len(message) > _LONGEST_MESSAGE:
        message = message[:_LONGEST_MESSAGE] + "..."
    if known.status != "INVALID_ARGUMENT":
        message = f"{known.status}: {message}"
    return Failure(number, ErrorCode[known.status], message)


def of_stream_error(error: BaseException, number: int) -> Failure:
    """The last answer to a request that failed, where no status travels along.

    Triton sends an error in a stream as a message and nothing else, so every message begins with
    its status, as in `INVALID_ARGUMENT: text 0 is empty`.
    """
    failure = of_error(error, number)
    if failure.code != ErrorCode.INVALID_ARG:
        return failure
    return replace(failure, message=f"INVALID_ARGUMENT: {failure.message}")


def _outputs(
    texts: Sequence[str],
    tokens: Sequence[int],
    reasons: Sequence[str],
    form: Form,
    more: Columns | None = None,
) -> tuple[Tensor, ...]:
    columns: Columns = {
        "text_output": (DataType.BYTES, [text.encode("utf-8") for text in texts]),
        "output_tokens": (DataType.INT32, tokens),
        "finish_reason": (DataType.BYTES, [reason.encode() for reason in reasons]),
        **(more or {}),
    }
    return _tensors(columns, form)


def _tensors(columns: Columns, form: Form) -> tuple[Tensor, ...]:
    return tuple(
        Tensor.of(name, datatype, form.shape, values)
        for name, (datatype, values) in columns.items()
        if name in form.outputs
    )

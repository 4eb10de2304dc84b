"""Answers to requests: translations, assessments, and errors with Triton's codes."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from dragoman_options.frames import Answer, DataType, ErrorCode, Failure, Tensor
from dragoman_options.refusal import Refusal, Refused
from dragoman_options.table import OUTPUTS, TRANSLATE

from dragoman.kernel.errors import InvalidRequest, as_dragoman_error
from dragoman_serving.engine.request_trace import RequestTrace
from dragoman_serving.request.plan import ScoringPlan
from dragoman_serving.scoring.assessment import Assessment
from dragoman_serving.translation.translation import Translation

log = logging.getLogger(__name__)

Columns = dict[str, Sequence[Any]]
"""Outputs by name, with one element for each translation."""

FINISHED, CUT, REPEATED, GOING_ON = "stop", "length", "repeated", ""
"""Finish reasons of a translation; empty if it is not finished."""


def _reason(translation: Translation) -> str:
    return REPEATED if translation.is_repeated else FINISHED if translation.complete else CUT


OF_ASSESSMENTS: dict[str, Callable[[Assessment], Any]] = {
    "token_scores": lambda assessment: assessment.token_scores,
    "alignments": lambda assessment: assessment.alignment,
    "attention": lambda assessment: assessment.attention.to_json() if assessment.attention else "",
}
"""Outputs of assessments, by name."""


def _assessed(value_of: Callable[[Assessment], Any]) -> Callable[[Translation], Any]:
    return lambda translation: (
        None if translation.assessment is None else value_of(translation.assessment)
    )


VALUES: dict[str, Callable[[Translation], Any]] = {
    "text_output": attrgetter("text"),
    "output_tokens": attrgetter("output_tokens"),
    "finish_reason": _reason,
    "scores": attrgetter("score"),
    "confidences": attrgetter("confidence"),
    "codes": attrgetter("codes"),
    "detected_language": lambda translation: translation.detected and translation.detected.language,
    "detected_probability": lambda translation: (
        translation.detected and translation.detected.probability
    ),
    "warnings": attrgetter("warnings"),
    "via": attrgetter("via"),
    "source_tokens": attrgetter("source_tokens"),
    **{name: _assessed(value_of) for name, value_of in OF_ASSESSMENTS.items()},
}
"""Outputs of translations, by name; None if a translation lacks one."""
_UNASKED = frozenset(
    output.name for output in OUTPUTS.values() if TRANSLATE in output.always or output.if_any
)
_DATATYPES = {output.name: DataType[output.codec.datatype] for output in OUTPUTS.values()}
_LONGEST_MESSAGE = 500
"""Characters of an error message, which may quote a long value of the request."""
_LONGEST_ID = 2000
"""Characters of a request's id in the log: 64 merged requests of a gateway, with its own ids."""


@dataclass  # not frozen: that is three times slower, and each request has one
class Form:
    """The form of an answer: the requested outputs, in the shape of the texts."""

    number: int
    """Number of the request."""
    outputs: Collection[str]
    shape: tuple[int, ...]
    language_fallbacks: Sequence[tuple[str, ...]] = ()
    """Of each text; see `dragoman_options.languages.language_fallbacks`."""


def of_translations(
    translations: Sequence[Translation],
    requested: Collection[str],
    form: Form,
    bundle: str,
    sent: str | None = None,
) -> Answer:
    """Returns the last answer to a request, with one or several consecutive elements per text.

    Args:
        translations: translations of the texts.
        requested: names of the requested outputs.
        form: form of the answer.
        bundle: identity of the bundle.
        sent: in a stream, the part of the translation that was sent before.
    """
    all_of_them = [translation for best in translations for translation in (best, *best.others)]
    each = len(all_of_them) // len(translations)
    if each > 1:
        form = replace(form, shape=(*form.shape[:-1], form.shape[-1] * each))
    columns: Columns = {
        name: [VALUES[name](translation) for translation in all_of_them]
        for name in _sent(frozenset(requested), tuple(form.outputs))
    }
    if sent is not None:
        columns["delta"] = [translation.text.removeprefix(sent) for translation in all_of_them]
    if any(form.language_fallbacks):
        columns["language_fallbacks"] = [
            fallbacks for fallbacks in form.language_fallbacks for _ in range(each)
        ]
    if "bundle" in requested:
        columns["bundle"] = [bundle] * len(all_of_them)
    return Answer(form.number, _tensors(columns, form))


def of_assessments(
    assessments: Sequence[Assessment], plan: ScoringPlan, form: Form, bundle: str
) -> Answer:
    """Returns the answer to a request for scores of given translations."""
    columns: Columns = {
        "scores": [assessment.score(plan.alpha) for assessment in assessments],
        "confidences": [assessment.confidence for assessment in assessments],
    }
    for name, value_of in OF_ASSESSMENTS.items():
        if name in plan.outputs:
            columns[name] = [value_of(assessment) for assessment in assessments]
    if "bundle" in plan.outputs:
        columns["bundle"] = [bundle] * len(assessments)
    return Answer(form.number, _tensors(columns, form))


def of_beginning(text: str, delta: str, tokens: int, form: Form) -> Answer:
    """Returns an answer with the stable prefix of a translation; more answers follow.

    Args:
        text: the translation so far.
        delta: the part that is new since the answer before.
        tokens: number of tokens of the text.
        form: form of the answer.
    """
    columns: Columns = {
        "text_output": [text],
        "output_tokens": [tokens],
        "finish_reason": [GOING_ON],
        "delta": [delta],
    }
    return Answer(form.number, _tensors(columns, form), last=False)


def of_error(
    error: BaseException, number: int, trace: RequestTrace | None = None, request_id: str = ""
) -> Failure:
    """Returns the last answer to a failed request, and ends its trace.

    Triton 24.10 answers every failure of a model with 400 over HTTP's `/generate`. So if the
    request is not at fault, the message begins with the gRPC status, as in `UNAVAILABLE: ...`.

    Args:
        error: why it failed.
        number: the request's number.
        trace: its trace; None: it is not traced.
        request_id: the client's id of it, for the log; empty: none.
    """
    if isinstance(error, Refused):  # by the contract's code
        error = InvalidRequest(*Refusal.of(error))
    known = as_dragoman_error(error)
    if known.status == "INTERNAL":
        # The error's message might quote the text.
        names = [f"request {request_id[:_LONGEST_ID]!r}"] if request_id else []
        names += [f"trace {trace.trace_id}"] if trace is not None else []
        of_request = f" ({', '.join(names)})" if names else ""
        log.error("a request failed: %s%s", type(error).__name__, of_request)
    if trace is not None:
        trace.end(error=error)
    message = str(known)
    if len(message) > _LONGEST_MESSAGE:
        message = message[:_LONGEST_MESSAGE] + "..."
    if known.status != "INVALID_ARGUMENT":
        message = f"{known.status}: {message}"
        return Failure(number, ErrorCode[known.status], message)
    return Failure(number, ErrorCode[known.status], message, Refusal.of(known).details())


def of_stream_error(
    error: BaseException, number: int, trace: RequestTrace | None = None, request_id: str = ""
) -> Failure:
    """As `of_error`, for streams, which have no status.

    Triton sends an error in a stream only as a message, so every message begins with the status, as
    in `INVALID_ARGUMENT: beam_width is 99: give 1 to 8`.
    """
    failure = of_error(error, number, trace, request_id)
    if failure.code != ErrorCode.INVALID_ARG:
        return failure
    return replace(failure, message=f"INVALID_ARGUMENT: {failure.message}")


@functools.lru_cache(maxsize=256)
def _sent(requested: frozenset[str], accepted: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of the outputs that may be sent if some are requested."""
    names = (name for name in VALUES if name in _UNASKED or name in requested)
    return tuple(name for name in names if name in accepted)


def _tensors(columns: Columns, form: Form) -> tuple[Tensor, ...]:
    """Returns the outputs of the form that every translation has, or of which some has a value."""
    tensors = []
    for name, values in columns.items():
        output = OUTPUTS[name]
        if name in form.outputs and (any(values) if output.if_any else None not in values):
            datatype, elements = _DATATYPES[name], output.codec.elements(values)
            if datatype is DataType.BYTES:
                elements = [text.encode() for text in elements]
            tensors.append(Tensor.of(name, datatype, form.shape, elements))
    return tuple(tensors)

"""Answers to requests: translations, assessments, and errors with Triton's codes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dragoman_options.frames import Answer, DataType, ErrorCode, Failure, Tensor
from dragoman_options.refusal import Refusal, Refused
from dragoman_options.table import OUTPUTS

from dragoman.kernel.errors import InvalidRequest, as_dragoman_error
from dragoman_serving.engine.request_trace import RequestTrace
from dragoman_serving.request.plan import ScoringPlan
from dragoman_serving.scoring.assessment import Assessment
from dragoman_serving.translation.translation import Translation

log = logging.getLogger(__name__)

Columns = dict[str, Sequence[Any]]
"""Outputs by name, with one element for each translation."""

_DATATYPES = {one.name: DataType[one.datatype] for one in OUTPUTS.values()}

FINISHED, CUT, REPEATED, GOING_ON = "stop", "length", "repeated", ""
"""Finish reasons of a translation; empty if it is not finished."""
_VALUES: dict[str, Callable[[Translation], Any]] = {
    "scores": lambda one: one.score,
    "confidences": lambda one: one.confidence,
    "codes": lambda one: one.codes and str(one.codes).encode(),
    "detected_language": lambda one: one.detected and one.detected.language.encode(),
    "detected_probability": lambda one: one.detected and one.detected.probability,
}
"""Optional outputs of translations, by name; None if a translation lacks one."""
_OF_ASSESSMENTS: dict[str, Callable[[Assessment], str]] = {
    "token_scores": lambda one: one.token_scores,
    "alignments": lambda one: str(one.alignment),
    "attention": lambda one: one.attention.to_json() if one.attention else "",
}
"""Optional outputs of assessments, by name."""
_LONGEST_MESSAGE = 500
"""Characters of an error message, which may quote a long value of the request."""
_LONGEST_ID = 2000
"""Characters of a request's id in the log: 64 merged requests of a gateway, with its own ids."""


@dataclass(frozen=True)
class Form:
    """The form of an answer: the requested outputs, in the shape of the texts."""

    number: int
    """Number of the request."""
    outputs: Collection[str]
    shape: tuple[int, ...]
    language_fallbacks: Sequence[str] = ()
    """Of each text; see `dragoman_options.languages.language_fallbacks`."""


def of_translations(
    translations: Sequence[Translation],
    wanted: Collection[str],
    form: Form,
    bundle: str,
    sent: str | None = None,
) -> Answer:
    """Returns the last answer to a request, with one or several consecutive elements per text.

    Args:
        translations: translations of the texts.
        wanted: names of the requested outputs.
        form: form of the answer.
        bundle: identity of the bundle.
        sent: in a stream, the part of the translation that was sent before.
    """
    all_of_them = [one for best in translations for one in (best, *best.others)]
    each = len(all_of_them) // len(translations)
    form = replace(form, shape=(*form.shape[:-1], form.shape[-1] * each))
    reasons = [
        REPEATED if one.is_repeated else FINISHED if one.complete else CUT for one in all_of_them
    ]
    tokens = [translation.output_tokens for translation in all_of_them]
    texts = [translation.text for translation in all_of_them]
    more: Columns = {}
    if sent is not None:
        more["delta"] = [text.removeprefix(sent).encode("utf-8") for text in texts]
    for name, value_of in _VALUES.items():
        values = [value_of(one) for one in all_of_them] if name in wanted else [None]
        if None not in values:
            more[name] = values
    if any(one.warnings for one in all_of_them):
        more["warnings"] = [",".join(one.warnings).encode() for one in all_of_them]
    if any(form.language_fallbacks):
        fallbacks = [one.encode() for one in form.language_fallbacks for _ in range(each)]
        more["language_fallbacks"] = fallbacks
    if all_of_them[0].via is not None:
        more["via"] = [(one.via or "").encode() for one in all_of_them]
    if wanted:
        assessments = [t.assessment for t in all_of_them if t.assessment is not None]
        more |= _assessed(assessments, wanted) | _named(len(all_of_them), wanted, bundle)
    return Answer(form.number, _outputs(texts, tokens, reasons, form, more))


def of_assessments(
    assessments: Sequence[Assessment], plan: ScoringPlan, form: Form, bundle: str
) -> Answer:
    """Returns the answer to a request for scores of given translations."""
    columns: Columns = {
        "scores": [one.score(plan.alpha) for one in assessments],
        "confidences": [one.confidence for one in assessments],
    }
    columns |= _assessed(assessments, plan.outputs)
    columns |= _named(len(assessments), plan.outputs, bundle)
    return Answer(form.number, _tensors(columns, form))


def _assessed(assessments: Sequence[Assessment], wanted: Collection[str]) -> Columns:
    """The requested outputs of assessments."""
    return {
        name: [text_of(one).encode("utf-8") for one in assessments]
        for name, text_of in _OF_ASSESSMENTS.items()
        if name in wanted
    }


def _named(count: int, wanted: Collection[str], bundle: str) -> Columns:
    """The bundle's identity for each translation, if it was requested."""
    return {"bundle": [bundle.encode()] * count} if "bundle" in wanted else {}


def of_beginning(text: str, delta: str, tokens: int, form: Form) -> Answer:
    """Returns an answer with the stable prefix of a translation; more answers follow.

    Args:
        text: the translation so far.
        delta: the part that is new since the answer before.
        tokens: number of tokens of the text.
        form: form of the answer.
    """
    outputs = _outputs([text], [tokens], [GOING_ON], form, {"delta": [delta.encode("utf-8")]})
    return Answer(form.number, outputs, last=False)


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


def _outputs(
    texts: Sequence[str],
    tokens: Sequence[int],
    reasons: Sequence[str],
    form: Form,
    more: Columns | None = None,
) -> tuple[Tensor, ...]:
    columns: Columns = {
        "text_output": [text.encode("utf-8") for text in texts],
        "output_tokens": tokens,
        "finish_reason": [reason.encode() for reason in reasons],
        **(more or {}),
    }
    return _tensors(columns, form)


def _tensors(columns: Columns, form: Form) -> tuple[Tensor, ...]:
    return tuple(
        Tensor.of(name, _DATATYPES[name], form.shape, values)
        for name, values in columns.items()
        if name in form.outputs
    )

"""Facts about a request, collected while it is answered, for metrics and the access log."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.limits import LimitStatus

_CLIENT_LEFT = 499


@dataclass(slots=True)
class RequestRecord:
    """One request.

    Attributes:
        characters: of its source texts, once it was admitted.
        key_id: of its key; None: anonymous, or not known yet.
        limit_status: of its caller, as of its admission or refusal; None: no limits.
        month_left_s: seconds until the next month, at that time.
        trace_id: of its trace; None: it is not traced.
        status: of its answer, as of HTTP; 499: none has begun, maybe because its client has left.
    """

    characters: int = 0
    key_id: str | None = None
    limit_status: LimitStatus | None = None
    month_left_s: float = 0.0
    trace_id: str | None = None
    status: int = _CLIENT_LEFT


_CURRENT: ContextVar[RequestRecord | None] = ContextVar("dragoman_request", default=None)


def begin_record() -> RequestRecord:
    """Begin the record of the request that the current task answers."""
    record = RequestRecord()
    _CURRENT.set(record)
    return record


def current_record() -> RequestRecord | None:
    """The record of the request that the current task answers."""
    return _CURRENT.get()


def is_traced() -> bool:
    """Whether the request that the current task answers is traced."""
    record = _CURRENT.get()
    return record is not None and record.trace_id is not None


def note_caller(caller: Caller, characters: int) -> None:
    """Note who sends the current request, and how much; called when it is admitted."""
    record = _CURRENT.get()
    if record is not None:
        record.key_id = caller.key_id
        record.characters += characters


def note_limit_status(status: LimitStatus, month_left_s: float) -> None:
    """Note what the caller of the current request has used of its limits."""
    record = _CURRENT.get()
    if record is not None:
        record.limit_status, record.month_left_s = status, month_left_s

"""Data about a request for metrics and the access log, collected while it is answered."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from dragoman_gateway.access.limits import LimitStatus
from dragoman_gateway.core.caller import Caller

_CLIENT_LEFT = 499


@dataclass(slots=True)
class RequestRecord:
    """The record of a request.

    Attributes:
        is_admitted: whether it was admitted, so that it counts for its caller's limits.
        characters: number of characters of its source texts, after admission.
        key_id: id of its key; None: anonymous, or not known yet.
        limit_status: status of its caller's limits at admission or refusal; None: no limits.
        month_left_s: seconds until the next month, at that time.
        trace_id: id of its trace; None: not traced.
        status: HTTP status of its answer; 499: no answer has begun, maybe because the client has
            disconnected.
    """

    is_admitted: bool = False
    characters: int = 0
    key_id: str | None = None
    limit_status: LimitStatus | None = None
    month_left_s: float = 0.0
    trace_id: str | None = None
    status: int = _CLIENT_LEFT


_CURRENT: ContextVar[RequestRecord | None] = ContextVar("dragoman_request", default=None)


def begin_record() -> RequestRecord:
    """Start the record of the current task's request."""
    record = RequestRecord()
    _CURRENT.set(record)
    return record


def current_record() -> RequestRecord | None:
    """Returns the record of the current task's request, or None."""
    return _CURRENT.get()


def is_traced() -> bool:
    """Whether the current task's request is traced."""
    record = _CURRENT.get()
    return record is not None and record.trace_id is not None


def note_caller(caller: Caller, characters: int) -> None:
    """Record the sender and size of the current request, when it is admitted."""
    record = _CURRENT.get()
    if record is not None:
        record.is_admitted, record.key_id = True, caller.key_id
        record.characters += characters


def note_limit_status(status: LimitStatus, month_left_s: float) -> None:
    """Record the usage of the limits of the current request's caller."""
    record = _CURRENT.get()
    if record is not None:
        record.limit_status, record.month_left_s = status, month_left_s

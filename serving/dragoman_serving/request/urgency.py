"""When a request's answer is wanted, and the trace that it is part of."""

from __future__ import annotations

from dataclasses import dataclass, field

from dragoman_serving.engine.request_trace import RequestTrace


@dataclass(frozen=True)
class Urgency:
    """When a request's answer is wanted; it goes where the request goes, and so does its trace.

    Of two that wait, the one of higher `priority` goes first. After `deadline_s`, on the clock of
    `time.monotonic`, it is not wanted any more. `trace` is None for requests that are not traced.
    """

    priority: int = 0
    deadline_s: float | None = None
    trace: RequestTrace | None = field(default=None, compare=False, repr=False)


DEFAULT_URGENCY = Urgency()

"""The priority, deadline and trace of a request."""

from __future__ import annotations

from dataclasses import dataclass, field

from dragoman_serving.engine.request_trace import RequestTrace


@dataclass(frozen=True)
class Urgency:
    """The priority, deadline and trace of a request, which are passed along with it.

    Waiting requests of higher `priority` go first. A request is cancelled after `deadline_s`, a
    time of `time.monotonic`. `trace` is None for requests that are not traced.
    """

    priority: int = 0
    deadline_s: float | None = None
    trace: RequestTrace | None = field(default=None, compare=False, repr=False)


DEFAULT_URGENCY = Urgency()

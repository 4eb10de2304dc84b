"""The priority, deadline and trace of a request."""

from __future__ import annotations

from typing import NamedTuple

from dragoman_serving.engine.request_trace import RequestTrace


class Urgency(NamedTuple):
    """The priority, deadline and trace of a request, which are passed along with it.

    Waiting requests of higher `priority` go first. A request is cancelled after `deadline_s`, a
    time of `time.monotonic`. `trace` is None for requests that are not traced.
    """

    priority: int = 0
    deadline_s: float | None = None
    trace: RequestTrace | None = None


DEFAULT_URGENCY = Urgency()

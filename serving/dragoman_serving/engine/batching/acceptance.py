"""Which requests may wait, by the time that they would take. No locks, no clocks."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman_serving.engine.errors import DeadlineExceeded, Overloaded

_MARGIN = 2.0
"""A request is accepted if it may wait this many times as long as estimated. An accepted request
that misses its deadline costs capacity and helps nobody."""
_LEAST_WAIT_S = 0.25
_OVERLOADED_PART = 20
"""While overloaded, a request is accepted if the wait is at most this part of its time, or the
least wait. Overload begins when a request is refused because of the work that waits, and ends when
nothing waits. A line that never gets empty brings no throughput, only latency."""


@dataclass(frozen=True)
class Estimate:
    """How long a request would take.

    Attributes:
        waiting: how many others wait.
        wait_s: for the work that would be done before it.
        own_s: for its own work.
        left_s: until its deadline.
        is_busy: whether the estimate holds, which is the pace of a busy server.
    """

    waiting: int
    wait_s: float
    own_s: float
    left_s: float
    is_busy: bool


class Acceptance:
    """Refuses requests that cannot be answered in time."""

    def __init__(self) -> None:
        """Begin without overload."""
        self._overloaded = False

    def check(self, request: Estimate) -> None:
        """Refuse a request that cannot be answered in time.

        Raises:
            Overloaded: too much other work waits.
            DeadlineExceeded: its own work takes longer than it allows.
        """
        wait_s, own_s, left_s = request.wait_s, request.own_s, request.left_s
        if own_s > left_s and request.is_busy:
            raise DeadlineExceeded(
                f"the request takes about {own_s:.1f} s on this busy server, and its time is "
                f"{left_s:.1f} s: send fewer sentences in a request, or allow more time"
            )
        longest_s = (left_s - own_s) / _MARGIN
        if wait_s > max(longest_s, own_s):
            self._overloaded = True
        if self._overloaded:
            longest_s = min(longest_s, max(left_s / _OVERLOADED_PART, _LEAST_WAIT_S))
        if request.waiting and wait_s > longest_s:
            raise Overloaded(
                f"the server is busy: {request.waiting} sentences are waiting, which takes about "
                f"{wait_s:.1f} s, and the request's time is {left_s:.1f} s",
                wait_s - longest_s,
            )

    def emptied(self) -> None:
        """End the overload, since nothing waits any more."""
        self._overloaded = False

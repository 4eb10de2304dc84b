"""A bounded waiting line, which refuses requests that it cannot hold or that would be late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dragoman.kernel.errors import DragomanError
from dragoman_serving.engine.batching.job import Awaited
from dragoman_serving.engine.batching.line import Line, Turns
from dragoman_serving.engine.batching.pace import Pace
from dragoman_serving.engine.errors import Closed, DeadlineExceeded, Overloaded
from dragoman_serving.engine.settings import Tuning

_Job = TypeVar("_Job", bound=Awaited[Any])


@dataclass(frozen=True)
class Arrival:
    """What is known of a request before any of its items waits.

    Attributes:
        items: how many it has.
        work: of all of them, in the unit of `Pace`.
        longest: source tokens of its longest sentence.
        priority: of its items.
        left_s: time until its deadline; None: it has none.
    """

    items: int
    work: int
    longest: int = 0
    priority: int = 0
    left_s: float | None = None


class BoundedLine(Line[_Job]):
    """A waiting line with a limit. What it refuses is returned as the error to be raised.

    Overload begins when a request is refused because of the work that waits. It ends when nothing
    waits, which the next arrival finds. Meanwhile the line must get short: a line that never gets
    empty brings no throughput, only latency.
    """

    def __init__(self, most: int, what: str, at_once: int, tuning: Tuning) -> None:
        """Begin with nothing, and without overload.

        Args:
            most: items that may wait.
            what: what waits, for messages, such as "sentences are waiting".
            at_once: items of a request that are worked on at once, if nothing else waits.
            tuning: how long a request may wait.
        """
        super().__init__()
        self._most, self._what, self._at_once, self._tuning = most, what, at_once, tuning
        self._reserved = 0
        self._overloaded = False
        self._closed: DragomanError | None = None

    def reserve(
        self, arrival: Arrival, pace: Pace | None, turns: Turns | None = None
    ) -> DragomanError | None:
        """Reserve space for a request, unless it would be late or leaves too little for others.

        Args:
            arrival: what is known of the request.
            pace: how fast the work is done; None: not known, and no request is late.
            turns: those of its items, which are accepted later; None: nothing is reserved.

        Returns:
            Why it is refused: `Overloaded`, because too much other work waits or it is too large;
            `DeadlineExceeded`, because its own work takes longer than it allows.
        """
        held = len(self) + self._reserved
        free = self._most - held
        if 2 * arrival.items > free + 1:
            ahead = self.work_ahead(held, arrival.priority)
            return Overloaded(
                f"the server is busy: {held} {self._what}, {max(free, 0)} more may wait, and one "
                f"request may take half of these, but this one has {arrival.items}",
                None if pace is None else pace.work_s * ahead,
            )
        if pace is not None and (refusal := self._lateness(arrival, pace)):
            return refusal
        if turns is not None and not turns.released:
            self._reserved += arrival.items
            turns.reserved += arrival.items
        return None

    def _lateness(self, arrival: Arrival, pace: Pace) -> DragomanError | None:
        """Why a request would be late, if it would."""
        if not self:
            self._overloaded = False
        if (left_s := arrival.left_s) is None:
            return None
        own_s = pace.work_s * arrival.work + pace.token_s * arrival.longest
        # Few items are faster than measured while nothing else is worked on.
        is_busy = len(self) > 0 or arrival.items > self._at_once
        if own_s > left_s and is_busy:
            return DeadlineExceeded(
                f"the request takes about {own_s:.1f} s on this busy server, and its time is "
                f"{left_s:.1f} s: send fewer sentences in a request, or allow more time"
            )
        wait_s = pace.work_s * self.work_ahead(arrival.items, arrival.priority)
        longest_s = (left_s - own_s) / self._tuning.wait_margin
        if wait_s > max(longest_s, own_s):
            self._overloaded = True
        if self._overloaded:
            part_s = left_s / self._tuning.overload_divisor
            longest_s = min(longest_s, max(part_s, self._tuning.overload_wait_s))
        if not self or wait_s <= longest_s:
            return None
        return Overloaded(
            f"the server is busy: {len(self)} sentences are waiting, which takes about "
            f"{wait_s:.1f} s, and the request's time is {left_s:.1f} s",
            wait_s - longest_s,
        )

    def release(self, turns: Turns) -> None:
        """Give back what a request has reserved and not used, and reserve nothing for it again.

        A request may be cancelled while one of its parts is still being prepared.
        """
        self._reserved -= turns.reserved
        turns.reserved = 0
        turns.released = True

    def accept(self, jobs: Sequence[_Job], turns: Turns) -> DragomanError | None:
        """Let items of one request wait, all or none of them.

        Returns:
            `Overloaded` where they would be too many, or the reason for which it was closed.
        """
        if self._closed is not None:
            return self._closed
        if not self:
            self._overloaded = False
        reserved = min(turns.reserved, len(jobs))
        held = len(self) + self._reserved - reserved
        if held + len(jobs) > self._most:
            return Overloaded(
                f"the server is busy: {held} {self._what} and {len(jobs)} more would exceed the "
                f"limit of {self._most}"
            )
        self._reserved -= reserved
        turns.reserved -= reserved
        for job in jobs:
            self.add(job, turns, job.work, job.priority)
        return None

    def close(self, reason: DragomanError | None = None) -> None:
        """Accept no more, for this reason; what waits can still be taken."""
        self._closed = reason or Closed("the engine has been shut down")

    @property
    def is_closed(self) -> bool:
        """Whether no more is accepted."""
        return self._closed is not None

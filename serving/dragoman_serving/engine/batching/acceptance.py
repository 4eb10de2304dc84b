"""A bounded queue, which refuses requests that it cannot hold or that would be late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from dragoman.kernel.errors import DragomanError
from dragoman_serving.engine.batching.job import Awaited
from dragoman_serving.engine.batching.pace import Pace
from dragoman_serving.engine.batching.waiting_queue import Turns, WaitingQueue
from dragoman_serving.engine.errors import Closed, DeadlineExceeded, Overloaded
from dragoman_serving.engine.settings import Tuning

_Job = TypeVar("_Job", bound=Awaited[Any])


class Arrival(NamedTuple):
    """What is known of a request before its items are queued.

    Attributes:
        items: number of its items.
        work: work of all items, in the unit of `Pace`.
        longest: source tokens of its longest sentence.
        priority: priority of its items.
        left_s: time until its deadline; None: no deadline.
    """

    items: int
    work: int
    longest: int = 0
    priority: int = 0
    left_s: float | None = None


class BoundedLine(WaitingQueue[_Job]):
    """A queue with a limit. A refusal is returned as the error to raise.

    Overload begins when a request is refused because of waiting work. It ends when an arrival finds
    the queue empty. Meanwhile only short waits are accepted, because a queue that never gets empty
    adds latency without throughput.
    """

    def __init__(self, most: int, what: str, at_once: int, tuning: Tuning) -> None:
        """Start empty, without overload.

        Args:
            most: maximum number of items.
            what: description of waiting items for messages, such as "sentences are waiting".
            at_once: items of a request that start immediately if the queue is empty.
            tuning: limits of the waiting time.
        """
        super().__init__()
        self._most, self._what, self._at_once, self._tuning = most, what, at_once, tuning
        self._reserved = 0
        self._overloaded = False
        self._closed: DragomanError | None = None

    def reserve(
        self, arrival: Arrival, pace: Pace | None, turns: Turns | None = None
    ) -> DragomanError | None:
        """Reserve space for a request, unless it would be late or is too large for the queue.

        Args:
            arrival: what is known of the request.
            pace: measured speed; None: unknown, so no request is late.
            turns: turns of its items, which are accepted later; None: nothing is reserved.

        Returns:
            The refusal, or None: `Overloaded` if too much other work is waiting or the request is
            too large; `DeadlineExceeded` if its own work exceeds its deadline.
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
        """The refusal of a request that would be late, or None."""
        waiting = len(self)
        if not waiting:
            self._overloaded = False
        if arrival.left_s is None:
            return None
        left_s = max(0.0, arrival.left_s)
        own_s = pace.work_s * arrival.work + pace.token_s * arrival.longest
        # Few items are faster than measured if nothing else is running.
        is_busy = waiting > 0 or arrival.items > self._at_once
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
        if not waiting or wait_s <= longest_s:
            return None
        return Overloaded(
            f"the server is busy: {waiting} sentences are waiting, which takes about "
            f"{wait_s:.1f} s, and the request's time is {left_s:.1f} s",
            wait_s - longest_s,
        )

    def release(self, turns: Turns) -> None:
        """Release a request's unused space, and reserve nothing for it again.

        A request may be cancelled while one of its parts is still being prepared.
        """
        self._reserved -= turns.reserved
        turns.reserved = 0
        turns.released = True

    def accept(self, jobs: Sequence[_Job], turns: Turns) -> DragomanError | None:
        """Add items of one request to the queue, all or none of them.

        Returns:
            `Overloaded` if they are too many, or the reason why the queue was closed, or None.
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
        """Accept no more items, for this reason; waiting items can still be taken."""
        self._closed = reason or Closed("the engine has been shut down")

    @property
    def is_closed(self) -> bool:
        """Whether the queue was closed."""
        return self._closed is not None

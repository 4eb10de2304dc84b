"""The scheduler, shared by threads: one of them asks at a time, and idle workers sleep."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence

from dragoman.kernel.errors import DragomanError
from dragoman_serving.engine.batching.acceptance import Arrival
from dragoman_serving.engine.batching.job import Job, Kind
from dragoman_serving.engine.batching.line import Turns
from dragoman_serving.engine.batching.pace import PaceMeter
from dragoman_serving.engine.batching.scheduler import Decision, Scheduler


class Dispatcher:
    """Holds the lock and the clock; what the scheduler returns as a refusal, it raises."""

    def __init__(self, scheduler: Scheduler, meter: PaceMeter, idle_s: float) -> None:
        """Begin to ask a scheduler.

        Args:
            scheduler: others only read its counts.
            meter: tells the pace.
            idle_s: how long a worker sleeps before it hears that there is nothing to do.
        """
        self._scheduler, self._meter, self._idle_s = scheduler, meter, idle_s
        self._changed = threading.Condition()

    def reserve(self, arrival: Arrival, turns: Turns | None) -> None:
        """Reserve space for a request, if it has turns, or raise why it is refused."""
        with self._changed:
            _raise(self._scheduler.line.reserve(arrival, self._meter.pace, turns))

    def release(self, turns: Turns) -> None:
        """Give back what a request has reserved."""
        with self._changed:
            self._scheduler.line.release(turns)

    def add(self, arrivals: Sequence[Job], turns: Turns) -> None:
        """Let sentences wait, or raise why they are refused."""
        with self._changed:
            _raise(self._scheduler.add(arrivals, turns))
            self._wake()

    def decide(self, worker: int, rows: int, kinds: Collection[Kind] = ()) -> Decision:
        """What a worker does before its next step; one with nothing in flight sleeps until then."""
        with self._changed:
            decision = self._decide(worker, rows, kinds)
            self._wake()  # what others may take depends on these rows
            if decision.waits:
                until_s = time.monotonic() + self._idle_s
                while decision.waits and (left_s := until_s - time.monotonic()) > 0:
                    self._changed.wait(left_s)
                    decision = self._decide(worker, rows, kinds)
            return decision

    def _decide(self, worker: int, rows: int, kinds: Collection[Kind]) -> Decision:
        pace = self._meter.pace if self._scheduler.needs_pace(rows) else None
        return self._scheduler.decide(worker, rows, time.monotonic(), pace, kinds)

    def _wake(self) -> None:
        """Wake workers that sleep, if one of them may take something."""
        if self._scheduler.may_spread:
            self._changed.notify_all()

    def drop(self, unwanted: Callable[[Job], bool]) -> list[Job]:
        """Take sentences out of the line, and return them."""
        with self._changed:
            return self._scheduler.drop(unwanted)

    def close(self, reason: DragomanError | None = None) -> None:
        """Take no more, for this reason; what waits is still handed out."""
        with self._changed:
            self._scheduler.line.close(reason)
            self._changed.notify_all()


def _raise(refusal: DragomanError | None) -> None:
    if refusal is not None:
        raise refusal

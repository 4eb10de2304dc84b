"""Shares the scheduler between threads: calls are serialized, and idle workers sleep."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Collection, Sequence

from dragoman.kernel.errors import DragomanError
from dragoman_serving.engine.batching.acceptance import Arrival
from dragoman_serving.engine.batching.job import Job, Kind
from dragoman_serving.engine.batching.pace import PaceMeter
from dragoman_serving.engine.batching.scheduler import Decision, Scheduler
from dragoman_serving.engine.batching.waiting_queue import Turns


class Dispatcher:
    """Holds the lock and the clock; it raises the refusals that the scheduler returns."""

    def __init__(self, scheduler: Scheduler, meter: PaceMeter, idle_s: float) -> None:
        """Store the scheduler.

        Args:
            scheduler: the scheduler; other code may only read its counts.
            meter: measures the pace.
            idle_s: longest sleep of a worker before it gets the decision to wait.
        """
        self._scheduler, self._meter, self._idle_s = scheduler, meter, idle_s
        # Conditions lock in Python code; locks, which most calls need only, do not.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self.pending = [ctypes.c_int64() for _ in range(scheduler.workers)]
        """For each worker whether its decision may have changed, for code that runs without the
        GIL."""

    def reserve(self, arrival: Arrival, turns: Turns | None) -> None:
        """Reserve space for a request, if it has turns, or raise the refusal."""
        with self._lock:
            _raise(self._scheduler.line.reserve(arrival, self._meter.pace, turns))

    def release(self, turns: Turns) -> None:
        """Release the reserved space of a request."""
        with self._lock:
            self._scheduler.line.release(turns)

    def add(self, arrivals: Sequence[Job], turns: Turns) -> None:
        """Queue sentences, or raise the refusal."""
        with self._lock:
            _raise(self._scheduler.add(arrivals, turns))
            self._count()
            self._wake()

    def decide(
        self, worker: int, rows: int, kinds: Collection[Kind] = (), steps: int = 1
    ) -> Decision:
        """Returns a worker's decision; with nothing in flight, it sleeps until there is one.

        Arguments as for `Scheduler.decide`.
        """
        with self._lock:
            self._scheduler.stepped(worker, steps)
            decision = self._decide(worker, rows, kinds)
            self._wake()  # the rows that others may take depend on these
            if decision.waits:
                until_s = time.monotonic() + self._idle_s
                while decision.waits and (left_s := until_s - time.monotonic()) > 0:
                    self._changed.wait(left_s)
                    decision = self._decide(worker, rows, kinds)
            return decision

    def _decide(self, worker: int, rows: int, kinds: Collection[Kind]) -> Decision:
        pace = self._meter.pace if self._scheduler.needs_pace(rows) else None
        decision = self._scheduler.decide(worker, rows, time.monotonic(), pace, kinds)
        self._count()
        return decision

    def _count(self) -> None:
        for pending, may_join in zip(self.pending, self._scheduler.may_join, strict=True):
            pending.value = may_join

    def _wake(self) -> None:
        """Wake sleeping workers, if one of them may take sentences."""
        if self._scheduler.may_spread:
            self._changed.notify_all()

    def drop(self, unwanted: Callable[[Job], bool]) -> list[Job]:
        """Remove sentences from the queue, and return them."""
        with self._lock:
            dropped = self._scheduler.drop(unwanted)
            self._count()
            return dropped

    def close(self, reason: DragomanError | None = None) -> None:
        """Accept no more sentences, for this reason; waiting ones are still processed."""
        with self._lock:
            self._scheduler.line.close(reason)
            self._changed.notify_all()


def _raise(refusal: DragomanError | None) -> None:
    if refusal is not None:
        raise refusal

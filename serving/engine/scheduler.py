"""Which waiting sentences join which worker, and when. Policy alone: no tensors, no clocks."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dragoman.errors import DragomanError
from serving.engine.job import Job

_MOST_PADDED = 1.15
"""Padded over real tokens that a group may have."""


_PATIENCE = 6
"""Steps for which a worker lets few sentences wait for others to join with: encoding them together
takes less time than one by one."""
_FEW = 4
"""Few are less than such a part of what is in flight."""
_IDLE_S = 10.0
"""How long a worker waits before it hears that there is nothing to do."""


class Overloaded(DragomanError):
    """More sentences wait than the engine may hold."""


class Closed(DragomanError):
    """The engine takes no more sentences."""


@dataclass(frozen=True)
class BatchLimits:
    """Bounds that keep memory within what is known at start."""

    rows: int = 64
    """Rows that one worker steps at a time; a sentence has as many as its beam is wide."""
    waiting: int = 20_000
    """Sentences that may wait; more are refused."""


class Scheduler:
    """First come, first served within a priority; the rows are shared evenly by the workers.

    A worker asks between two steps for sentences to join its batches; only one with nothing in
    flight waits for them.
    """

    def __init__(self, limits: BatchLimits, workers: int, lone_rows: int = 0) -> None:
        """Begin with nothing waiting.

        Args:
            limits: bounds on rows and waiting sentences.
            workers: how many ask.
            lone_rows: as many rows or fewer, waiting and in flight, go to one worker, because a
                step of so few is faster with all the cores.
        """
        self._limits = limits
        self._lone_rows = lone_rows
        self._waiting: list[tuple[int, int, Job]] = []
        self._waiting_rows = 0
        self._arrivals = itertools.count()
        self._rows = [0] * workers
        self._patience = [0] * workers
        self._changed = threading.Condition()
        self._closed: DragomanError | None = None

    @property
    def waiting(self) -> int:
        """Number of sentences that wait."""
        return len(self._waiting)

    @property
    def rows(self) -> int:
        """Number of rows in flight."""
        return sum(self._rows)

    def alone(self, worker: int) -> bool:
        """Whether a worker has all the work there is, and it is little."""
        others = any(rows for other, rows in enumerate(self._rows) if other != worker)
        return not others and self._waiting_rows + self.rows <= self._lone_rows

    def add(self, arrivals: Sequence[Job]) -> None:
        """Let sentences wait, all or none of them.

        Raises:
            Overloaded: they would be too many.
            Closed: the scheduler was closed.
        """
        with self._changed:
            if self._closed is not None:
                raise self._closed
            held = len(self._waiting)
            if held + len(arrivals) > self._limits.waiting:
                raise Overloaded(
                    f"the server is busy: {held} sentences are waiting and {len(arrivals)} more "
                    f"would exceed the limit of {self._limits.waiting}: try again later"
                )
            for job in arrivals:
                heapq.heappush(self._waiting, (-job.sentence.priority, next(self._arrivals), job))
                self._waiting_rows += job.rows
            self._changed.notify_all()

    def admit(self, worker: int, rows: int) -> list[Job] | None:
        """Sentences that join a worker's batches now.

        Args:
            worker: who asks.
            rows: how many it has in flight.

        Returns:
            Sentences; none where it has enough to do, or waited in vain for a while; None where
            it has nothing to do and the scheduler was closed.
        """
        with self._changed:
            self._rows[worker] = rows
            if self._waiting:
                self._changed.notify_all()  # what others may take depends on these rows
            if rows == 0:
                self._changed.wait_for(lambda: self._closed or self._room(worker) > 0, _IDLE_S)
                if self._room(worker) <= 0:
                    return None if self._closed else []
            room = self._room(worker)
            if self._holds_back(worker, room):
                return []
            admitted: list[Job] = []
            while self._waiting and room > 0:
                job = self._waiting[0][-1]
                if job.rows > self._limits.rows - self._rows[worker] and self._rows[worker]:
                    break
                heapq.heappop(self._waiting)
                admitted.append(job)
                self._rows[worker] += job.rows
                self._waiting_rows -= job.rows
                room -= job.rows
            return admitted

    def drop(self, unwanted: Callable[[Job], bool]) -> list[Job]:
        """Take the sentences out of the queue that nobody wants any more, and return them."""
        with self._changed:
            dropped: list[Job] = []
            kept: list[tuple[int, int, Job]] = []
            for entry in self._waiting:
                if unwanted(entry[-1]):
                    dropped.append(entry[-1])
                else:
                    kept.append(entry)
            if dropped:
                heapq.heapify(kept)
                self._waiting = kept
                self._waiting_rows -= sum(job.rows for job in dropped)
            return dropped

    def close(self, reason: DragomanError | None = None) -> None:
        """Take no more, for this reason; what waits is still handed out."""
        with self._changed:
            self._closed = reason or Closed("the engine has been shut down")
            self._changed.notify_all()

    def _holds_back(self, worker: int, room: int) -> bool:
        """Whether so few rows could join a worker's that it is better to wait for more."""
        few = 0 < min(room, self._waiting_rows) * _FEW < self._rows[worker]
        if few and self._patience[worker] > 0:
            self._patience[worker] -= 1
            return True
        self._patience[worker] = _PATIENCE
        return False

    def _room(self, worker: int) -> int:
        """Rows that a worker may take now: up to its share of all there are."""
        if not self._waiting:
            return 0
        total = self._waiting_rows + self.rows
        if total <= self._lone_rows and not self._closed:
            busiest = max(range(len(self._rows)), key=self._rows.__getitem__)
            return total if worker == busiest else 0
        share = -(-total // len(self._rows))
        return min(share, self._limits.rows) - self._rows[worker]


def length_groups(lengths: Sequence[int], most_tokens: int, padded: bool) -> list[slice]:
    """Cut lengths in rising order into groups that waste little when each is padded by itself.

    Source sentences differ in length by several times; padded to the longest of a batch, half of
    the encoder's work could be on padding. No group has more than `most_tokens`, with padding if it
    is padded, unless it is of one.
    """
    groups: list[slice] = []
    start = tokens = 0
    for index, length in enumerate(lengths):
        together = length * (index - start + 1) if padded else tokens + length
        wasteful = together > _MOST_PADDED * (tokens + length)
        if index > start and (wasteful or together > most_tokens):
            groups.append(slice(start, index))
            start, tokens = index, 0
        tokens += length
    return [*groups, slice(start, len(lengths))]

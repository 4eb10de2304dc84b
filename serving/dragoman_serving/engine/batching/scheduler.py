"""Which sentences wait, which join which worker, and when. Policy alone: no tensors, no clocks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dragoman.kernel.errors import DragomanError
from dragoman_serving.engine.batching.acceptance import Acceptance, Estimate
from dragoman_serving.engine.batching.job import Job
from dragoman_serving.engine.batching.line import Line, Turns
from dragoman_serving.engine.batching.pace import Pace
from dragoman_serving.engine.errors import Closed, Overloaded

_MOST_PADDED = 1.15
"""Padded over real tokens that a group may have."""


_PATIENCE = 6
"""Steps for which a worker lets few sentences wait for others to join with: encoding them together
takes less time than one by one."""
_FEW = 4
"""Few are less than such a part of what is in flight."""
_IDLE_S = 10.0
"""How long a worker waits before it hears that there is nothing to do."""


@dataclass(frozen=True)
class BatchLimits:
    """Bounds that keep memory within what is known at start."""

    rows: int = 64
    """Rows that one worker steps at a time; a sentence has as many as its beam is wide."""
    waiting: int = 40_000
    """Sentences that may wait; more are refused. One request may take half of what is free."""

    @property
    def most_of_request(self) -> int:
        """Sentences that one request may have."""
        return self.waiting // 2


@dataclass(frozen=True)
class Arrival:
    """What is known of a request before any of its sentences waits.

    Attributes:
        sentences: how many it has.
        work: rows times source tokens, of all of them.
        longest: source tokens of its longest sentence.
        priority: of its sentences.
        left_s: time until its deadline; None: it has none.
    """

    sentences: int
    work: int
    longest: int
    priority: int = 0
    left_s: float | None = None


@dataclass(frozen=True)
class Admission:
    """What a worker is to do with sentences that waited."""

    joining: list[Job] = field(default_factory=list)
    late: list[Job] = field(default_factory=list)
    """Those whose deadline will pass before they can be translated."""


class Scheduler:
    """Requests take turns within a priority; the rows are shared evenly by the workers.

    A worker asks between two steps for sentences to join its batches; only one with nothing in
    flight waits for them.
    """

    def __init__(
        self, limits: BatchLimits, workers: int, lone_rows: int = 0, pace: Pace | None = None
    ) -> None:
        """Begin with nothing waiting.

        Args:
            limits: bounds on rows and waiting sentences.
            workers: how many ask.
            lone_rows: as many rows or fewer, waiting and in flight, go to one worker, because a
                step of so few is faster with all the cores.
            pace: how fast the engine works.
        """
        self._limits = limits
        self._lone_rows = lone_rows
        self._pace = pace or Pace(workers)
        self._waiting: Line[Job] = Line()
        self._waiting_rows = 0
        self._reserved = 0
        self._acceptance = Acceptance()
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

    def reserve(self, arrival: Arrival, turns: Turns) -> None:
        """Reserve space for a request, unless it cannot be translated in time.

        Args:
            arrival: what is known of the request.
            turns: those of its sentences, which are added later.

        Raises:
            Overloaded: too much other work waits, or the request leaves no space for others.
            DeadlineExceeded: its own work takes longer than it allows.
        """
        with self._changed:
            held = len(self._waiting) + self._reserved
            free = self._limits.waiting - held
            if 2 * arrival.sentences > free + 1:
                ahead = self._waiting.work_ahead(held, arrival.priority)
                raise Overloaded(
                    f"the server is busy: {held} sentences are waiting, {max(free, 0)} more may "
                    "wait, and one request may take half of these, but this one has "
                    f"{arrival.sentences}",
                    self._pace.seconds_of(ahead) if self._pace.is_known else None,
                )
            if arrival.left_s is not None and self._pace.is_known:
                self._check_time(arrival, arrival.left_s)
            if not turns.released:
                self._reserved += arrival.sentences
                turns.reserved += arrival.sentences

    def release(self, turns: Turns) -> None:
        """Give back what a request has reserved and not used, and reserve nothing for it again.

        A request may be cancelled while one of its parts is still being prepared.
        """
        with self._changed:
            self._reserved -= turns.reserved
            turns.reserved = 0
            turns.released = True

    def _check_time(self, arrival: Arrival, left_s: float) -> None:
        """Refuse a request that cannot be translated in time."""
        pace, held = self._pace, len(self._waiting)
        ahead = self._waiting.work_ahead(arrival.sentences, arrival.priority)
        self._acceptance.check(
            Estimate(
                waiting=held,
                wait_s=pace.seconds_of(ahead),
                own_s=pace.seconds_of(arrival.work) + pace.duration_s(arrival.longest),
                left_s=left_s,
                # Few sentences are faster while nothing else is translated.
                is_busy=held > 0 or arrival.sentences > self._limits.rows,
            )
        )

    def add(self, arrivals: Sequence[Job], turns: Turns | None = None) -> None:
        """Let sentences wait, all or none of them.

        Args:
            arrivals: sentences of one request.
            turns: those of the request, of which other sentences may wait already.

        Raises:
            Overloaded: they would be too many.
            Closed: the scheduler was closed.
        """
        turns = turns or Turns()
        with self._changed:
            if self._closed is not None:
                raise self._closed
            reserved = min(turns.reserved, len(arrivals))
            held = len(self._waiting) + self._reserved - reserved
            if held + len(arrivals) > self._limits.waiting:
                raise Overloaded(
                    f"the server is busy: {held} sentences are waiting and {len(arrivals)} more "
                    f"would exceed the limit of {self._limits.waiting}"
                )
            self._reserved -= reserved
            turns.reserved -= reserved
            for job in arrivals:
                self._waiting.add(job, turns, job.work, job.sentence.priority)
                self._waiting_rows += job.rows
            self._changed.notify_all()

    def admit(self, worker: int, rows: int, now_s: float = 0.0) -> Admission | None:
        """Sentences that join a worker's batches now.

        Args:
            worker: who asks.
            rows: how many it has in flight.
            now_s: the time, on the clock of the deadlines.

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
                    return None if self._closed else Admission()
            room = self._room(worker)
            admission = Admission()
            if self._holds_back(worker, room):
                return admission
            while self._waiting and room > 0:
                job = self._waiting.first()
                late = self._is_late(job, now_s)
                too_wide = job.rows > self._limits.rows - self._rows[worker]
                if too_wide and self._rows[worker] and not late:
                    break
                self._waiting.take()
                self._waiting_rows -= job.rows
                if late:
                    admission.late.append(job)
                    continue
                admission.joining.append(job)
                self._rows[worker] += job.rows
                room -= job.rows
            if not self._waiting:
                self._acceptance.emptied()
            return admission

    def _is_late(self, job: Job, now_s: float) -> bool:
        """Whether a sentence would take a row from others, and then miss its deadline.

        Only while others wait: a lone sentence is translated faster than a busy engine's pace says.
        """
        deadline_s = job.sentence.deadline_s
        if deadline_s is None or len(self._waiting) < self._limits.rows or not self._pace.is_known:
            return False
        return now_s + self._pace.duration_s(len(job.sentence.src_ids)) > deadline_s

    def drop(self, unwanted: Callable[[Job], bool]) -> list[Job]:
        """Take the sentences out of the queue that nobody wants any more, and return them."""
        with self._changed:
            dropped = self._waiting.drop(unwanted)
            self._waiting_rows -= sum(job.rows for job in dropped)
            if not self._waiting:
                self._acceptance.emptied()
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

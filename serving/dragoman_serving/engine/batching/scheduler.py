"""The scheduler: decides which waiting sentences join which worker, and when.

Only policy, without tensors, threads, locks or clocks. Each decision depends only on the earlier
calls and the arguments, so a recorded sequence of calls can be replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from dragoman.kernel.errors import DragomanError
from dragoman_serving.engine.batching.acceptance import BoundedLine
from dragoman_serving.engine.batching.job import Job, Kind, State
from dragoman_serving.engine.batching.pace import Pace
from dragoman_serving.engine.batching.waiting_queue import Turns
from dragoman_serving.engine.settings import BatchLimits, Tuning


@dataclass  # not frozen: that is three times slower, and there is one for each step
class Decision:
    """A worker's actions before its next step.

    Attributes:
        joining: sentences that join its batches.
        late: sentences that are removed from the queue, because they would miss their deadline.
        alone: whether the worker has all the work, and it is little.
        held_steps: steps for which the few waiting sentences still wait for others.
        waits: whether it has nothing to do now.
        ends: whether it has nothing to do, and the scheduler was closed.
    """

    joining: tuple[Job, ...] = ()
    late: tuple[Job, ...] = ()
    alone: bool = False
    held_steps: int = 0
    waits: bool = False
    ends: bool = False


class Scheduler:
    """Requests take turns within a priority; the rows are shared evenly between the workers.

    Attributes:
        line: the queue of sentences, which reserves space for requests or refuses them.
    """

    def __init__(
        self, limits: BatchLimits, workers: int, lone_rows: int = 0, tuning: Tuning | None = None
    ) -> None:
        """Start with an empty queue.

        Args:
            limits: limits of rows and waiting sentences.
            workers: number of workers.
            lone_rows: if at most this many rows are waiting or running, one worker takes them all,
                because such a small step is faster with all cores.
            tuning: measured tuning parameters.
        """
        self._single_rows = limits.single_rows // max(workers - 1, 1)
        self._limits, self._lone_rows, self._tuning = limits, lone_rows, tuning or Tuning()
        self.line: BoundedLine[Job] = BoundedLine(
            limits.waiting, "sentences are waiting", limits.rows, self._tuning
        )
        self.workers = workers
        self._waiting_rows = 0
        self._rows = [0] * workers
        self._patience = [0] * workers
        self._enough_rows = [1] * workers
        """For each worker, the waiting rows that are not too few to join it as it is."""

    @property
    def rows(self) -> int:
        """Number of rows in flight."""
        return sum(self._rows)

    def add(self, arrivals: Sequence[Job], turns: Turns) -> DragomanError | None:
        """Queue sentences of one request, all or none of them.

        Returns:
            The refusal, or None; see `BoundedLine.accept`.
        """
        refusal = self.line.accept(arrivals, turns)
        if refusal is None:
            if len(arrivals) == 1:
                arrivals[0].came_alone = True
            for job in arrivals:
                self._waiting_rows += job.rows
        return refusal

    @property
    def may_spread(self) -> bool:
        """Whether a worker with nothing in flight may take waiting sentences."""
        if not self._waiting_rows or 0 not in self._rows:
            return False
        return any(rows == 0 and self._room(worker) > 0 for worker, rows in enumerate(self._rows))

    @property
    def may_join(self) -> list[bool]:
        """For each worker whether waiting sentences may join it before one of its own is finished.

        A sentence that is too wide for the worker, or of a further kind, may be among these.
        """
        waiting, most, workers = self._waiting_rows, self._limits.rows, self.workers
        total = waiting + self.rows
        is_shared = total > max(self._lone_rows, self._single_rows)
        return [
            waiting >= enough and rows < most and not (is_shared and total <= rows * workers)
            for rows, enough in zip(self._rows, self._enough_rows, strict=True)
        ]

    def stepped(self, worker: int, steps: int) -> None:
        """Note the steps of a worker since its last decision, of which one is counted there."""
        if steps > 1:
            self._patience[worker] = max(0, self._patience[worker] - (steps - 1))

    def needs_pace(self, rows: int) -> bool:
        """Whether the decision for a worker with `rows` rows depends on the pace."""
        may_join = rows < self._limits.rows or self._lone_rows > 0
        return may_join and len(self.line) >= self._limits.rows

    def decide(
        self,
        worker: int,
        rows: int,
        now_s: float,
        pace: Pace | None,
        kinds: Collection[Kind] = (),
    ) -> Decision:
        """Returns a worker's actions before its next step.

        Args:
            worker: index of the worker.
            rows: number of its rows in flight.
            now_s: the time, on the clock of the deadlines.
            pace: the measured pace; see `needs_pace`.
            kinds: kinds of searches that it has in flight.
        """
        self._rows[worker] = rows
        room = self._room(worker)
        if rows == 0 and room <= 0:
            return Decision(waits=not self.line.is_closed, ends=self.line.is_closed)
        if self._holds_back(worker, room):
            return Decision(alone=self.is_alone(worker), held_steps=self._patience[worker] + 1)
        joining: list[Job] = []
        late: list[Job] = []
        while self.line and room > 0:
            job = self.line.first()
            is_late = self._is_late(job, now_s, pace)
            too_wide = job.rows > self._limits.rows - self._rows[worker]
            if (too_wide or self._is_further(job, kinds)) and self._rows[worker] and not is_late:
                break
            self.line.take()
            self._waiting_rows -= job.rows
            if is_late:
                late.append(job)
                continue
            job.state = State.RUNNING
            joining.append(job)
            if self._limits.kinds is not None:
                kinds = {*kinds, job.kind}
            self._rows[worker] += job.rows
            room -= job.rows
        return Decision(tuple(joining), tuple(late), self.is_alone(worker))

    def drop(self, unwanted: Callable[[Job], bool]) -> list[Job]:
        """Removes unwanted sentences from the queue, and returns them."""
        dropped = self.line.drop(unwanted)
        self._waiting_rows -= sum(job.rows for job in dropped) if dropped else 0
        return dropped

    def is_alone(self, worker: int) -> bool:
        """Whether a worker has all the work, and it is little."""
        if self._rows[worker] != self.rows:
            return False
        if not self._lone_rows:
            return self._waiting_rows == 0
        return self._waiting_rows + self.rows <= self._lone_rows

    def _is_further(self, job: Job, kinds: Collection[Kind]) -> bool:
        """Whether a sentence would exceed a worker's number of kinds."""
        most = self._limits.kinds
        return most is not None and job.kind not in kinds and len(kinds) >= most

    def _is_late(self, job: Job, now_s: float, pace: Pace | None) -> bool:
        """Whether a sentence would take rows from others, and then miss its deadline.

        Only while others wait: a single sentence is faster than the pace of a busy engine.
        """
        if job.deadline_s is None or pace is None or len(self.line) < self._limits.rows:
            return False
        return now_s + pace.token_s * len(job.sentence.src_ids) > job.deadline_s

    def _holds_back(self, worker: int, room: int) -> bool:
        """Whether so few rows could join a worker that it is better to wait for more."""
        joinable, divisor = min(room, self._waiting_rows), self._tuning.join_few_divisor
        few = 0 < joinable * divisor < self._rows[worker]
        if few and self._patience[worker] > 0:
            self._patience[worker] -= 1
            enough = -(-self._rows[worker] // divisor)
            fits = self._rows[worker] + enough <= self._limits.rows
            self._enough_rows[worker] = enough if fits else self._limits.waiting + 1
            return True
        self._patience[worker] = self._tuning.join_wait_steps
        self._enough_rows[worker] = 1
        return False

    def _room(self, worker: int) -> int:
        """Rows that a worker may take now, up to its share of all rows."""
        if not self.line:
            return 0
        total = self._waiting_rows + self.rows
        together = self._lone_rows
        if self.line.first().came_alone:
            together = max(together, self._single_rows)
        if total <= together and not self.line.is_closed:
            busiest = max(range(len(self._rows)), key=self._rows.__getitem__)
            return total if worker == busiest else 0
        share = -(-total // len(self._rows))
        return min(share, self._limits.rows) - self._rows[worker]

"""The batch of one beam width of a worker.

Its sentences step together, each at its own position. Between two steps, sentences that are
finished or cancelled leave, and others join.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from dataclasses import replace

from dragoman_serving.engine.batching.job import Job, State
from dragoman_serving.engine.batching.pace import PaceMeter
from dragoman_serving.engine.batching.statistics import Statistics
from dragoman_serving.engine.network import Decoding

_CHECK_S = 0.005
"""Seconds between checks for cancelled or overdue sentences in flight."""


class Batch:
    """The jobs of a decoding."""

    def __init__(self, decoding: Decoding, statistics: Statistics, meter: PaceMeter) -> None:
        """Start without sentences.

        Args:
            decoding: a decoding with nothing in flight.
            statistics: counts the outcomes of the sentences.
            meter: counts the steps that they take.
        """
        self._decoding = decoding
        self._statistics = statistics
        self._meter = meter
        self._steps = 0
        self.jobs: list[Job] = []
        """The sentences in flight, by slot."""
        self._fresh: list[Job] = []
        """Sentences without a token."""
        self._followed = 0
        """Number of sentences with a progress callback."""
        self._next_check_s = 0.0
        self.rows = 0
        """Rows in flight."""

    @property
    def nbytes(self) -> int:
        """Bytes of the cache."""
        return self._decoding.nbytes

    def join(self, jobs: Sequence[Job], alone: bool) -> None:
        """Add sentences of the decoding's width; `alone` as for `Decoding.step`."""
        self._decoding.join([job.sentence for job in jobs], alone)
        self.rows = self._decoding.rows
        encoded_s = time.monotonic()
        for job in jobs:
            job.begin_step, job.encoded_s = self._steps, encoded_s
        self.jobs += jobs
        self._fresh += jobs
        self._followed += len([job for job in jobs if job.progress is not None])
        self._next_check_s = 0.0  # some may have waited too long

    def step(self, alone: bool, pending: ctypes.c_int64 | None = None) -> int:
        """Run one step or some, see `Decoding`, then settle and remove the finished sentences.

        Returns:
            The number of steps.
        """
        begin_s = time.monotonic()
        if begin_s >= self._next_check_s and (given_up := self._given_up(begin_s)):
            self._leave(given_up)
            self._fresh = [job for job in self._fresh if job in self.jobs]
        if not self.jobs:
            return 0
        steps, done = self._decoding.step(alone, None if self._followed else pending)
        self._steps += steps
        if self._fresh:
            # The steps of a call take about the same time.
            self._begun(begin_s + (time.monotonic() - begin_s) / steps)
        if self._followed:
            for slot, job in enumerate(self.jobs):
                if job.progress is not None:
                    job.progress(self._decoding.found.certain(slot))
        if done:
            self._finish(done)
            self._leave(done)
        return steps

    def _begun(self, now_s: float) -> None:
        """Note the time of the first token of new sentences."""
        for job in self._fresh:
            job.first_token_s = now_s
        self._statistics.first_tokens(self._fresh, now_s)
        self._fresh = []

    def _given_up(self, now_s: float) -> list[int]:
        """Slots of sentences that were cancelled or are overdue."""
        self._next_check_s = now_s + _CHECK_S
        slots = []
        for slot, job in enumerate(self.jobs):
            if not job.is_wanted(now_s):
                job.give_up("the deadline passed while it was being translated")
                self._statistics.gave_up(job)
                slots.append(slot)
        return slots

    def _finish(self, slots: Sequence[int]) -> None:
        searches, finished = self._decoding.found, []
        for slot in slots:
            job = self.jobs[slot]
            result = searches.result(slot)
            if (count := job.sentence.options.hypotheses) > 1:
                result = replace(result, others=searches.next_best(slot, count - 1))
            job.steps = self._steps - job.begin_step
            finished.append((job, result))
        # Counted before the futures are set, so that the counts include them.
        self._statistics.completed(finished)
        self._meter.finished(
            sum([job.steps for job, _ in finished]),
            sum([len(job.sentence.src_ids) for job, _ in finished]),
            len(finished),
        )
        for job, result in finished:
            job.settle(State.DONE, result)

    def _leave(self, slots: Sequence[int]) -> None:
        """Remove the sentences in these slots, given in ascending order."""
        self._decoding.leave(slots)
        self.rows = self._decoding.rows
        for slot in reversed(slots):
            self._followed -= self.jobs[slot].progress is not None
            last = self.jobs.pop()
            if slot < len(self.jobs):
                self.jobs[slot] = last


def length_groups(
    lengths: Sequence[int], most_tokens: int, most_padded: float | None
) -> list[slice]:
    """Split lengths in ascending order into groups with little padding.

    With padding to the longest sentence, half of the encoder's work could be on padding. Each group
    has at most `most_tokens`, with padding, unless it is a single sentence, and at most
    `most_padded` times its real tokens. If that is None, groups are not padded.
    """
    groups: list[slice] = []
    start = tokens = 0
    for index, length in enumerate(lengths):
        real = tokens + length
        together = real if most_padded is None else length * (index - start + 1)
        wasteful = together > (most_padded or 1) * real
        if index > start and (wasteful or together > most_tokens):
            groups.append(slice(start, index))
            start, tokens = index, 0
        tokens += length
    return [*groups, slice(start, len(lengths))]

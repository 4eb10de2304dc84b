"""The sentences of one beam width that a worker has in flight.

They step together, whatever position each has reached. Between any two steps, sentences that are
done or not wanted leave, and others join.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from dragoman_serving.engine.batching.job import Job, State
from dragoman_serving.engine.batching.pace import PaceMeter
from dragoman_serving.engine.batching.statistics import Statistics
from dragoman_serving.engine.network import Decoding

_CHECK_S = 0.005
"""How often sentences in flight are asked whether anyone still wants them."""


class Batch:
    """The jobs of a decoding."""

    def __init__(self, decoding: Decoding, statistics: Statistics, meter: PaceMeter) -> None:
        """Begin without sentences.

        Args:
            decoding: nothing in flight yet.
            statistics: where to count what becomes of the sentences.
            meter: where to count how many steps they take.
        """
        self._decoding = decoding
        self._statistics = statistics
        self._meter = meter
        self._steps = 0
        self.jobs: list[Job] = []
        """The sentences in flight, by slot."""
        self._fresh: list[Job] = []
        """Those without a token."""
        self._followed = 0
        """How many someone wants to hear of as they go."""
        self._next_check_s = 0.0

    @property
    def rows(self) -> int:
        """Rows in flight."""
        return self._decoding.rows

    @property
    def nbytes(self) -> int:
        """Bytes of the cache."""
        return self._decoding.nbytes

    def join(self, jobs: Sequence[Job], alone: bool) -> None:
        """Take sentences in, of the decoding's width; `alone` as for `Decoding.step`."""
        self._decoding.join([job.sentence for job in jobs], alone)
        encoded_s = time.monotonic()
        for job in jobs:
            job.begin_step, job.encoded_s = self._steps, encoded_s
        self.jobs += jobs
        self._fresh += jobs
        self._followed += sum(job.progress is not None for job in jobs)
        self._next_check_s = 0.0  # some may have waited too long

    def step(self, alone: bool) -> None:
        """Bring every sentence one token further; settle and let go of those that are done."""
        if given_up := self._given_up():
            self._leave(given_up)
            self._fresh = [job for job in self._fresh if job in self.jobs]
        if not self.jobs:
            return
        done = self._decoding.step(alone)
        self._steps += 1
        if self._fresh or self._followed:
            self._report()
        if done:
            self._finish(done)
            self._leave(done)

    def _report(self) -> None:
        if self._fresh:
            now_s = time.monotonic()
            for job in self._fresh:
                job.first_token_s = now_s
            self._statistics.first_tokens(self._fresh, now_s)
            self._fresh = []
        if self._followed:
            for slot, job in enumerate(self.jobs):
                if job.progress is not None:
                    job.progress(self._decoding.found.certain(slot))

    def _given_up(self) -> list[int]:
        """Slots of sentences that nobody waits for any more."""
        now_s = time.monotonic()
        if now_s < self._next_check_s:
            return []
        self._next_check_s = now_s + _CHECK_S
        slots = []
        for slot, job in enumerate(self.jobs):
            if not job.is_wanted(now_s):
                job.give_up("the deadline passed while it was being translated")
                self._statistics.gave_up(job)
                slots.append(slot)
        return slots

    def _finish(self, slots: Sequence[int]) -> None:
        for slot in slots:
            job, found = self.jobs[slot], self._decoding.found
            result = found.result(slot)
            if (wanted := job.sentence.options.hypotheses) > 1:
                result = replace(result, others=found.next_best(slot, wanted - 1))
            # Counted before anyone can know that it is done.
            self._statistics.completed(job, len(result.ids))
            job.steps = self._steps - job.begin_step
            self._meter.finished(job.steps, len(job.sentence.src_ids))
            job.settle(State.DONE, result)

    def _leave(self, slots: Sequence[int]) -> None:
        """Let go of sentences in these slots, given in rising order."""
        self._decoding.leave(slots)
        for slot in reversed(slots):
            self._followed -= self.jobs[slot].progress is not None
            last = self.jobs.pop()
            if slot < len(self.jobs):
                self.jobs[slot] = last


def length_groups(
    lengths: Sequence[int], most_tokens: int, most_padded: float | None
) -> list[slice]:
    """Cut lengths in rising order into groups that waste little when each is padded by itself.

    Padded to the longest of a batch, half of the encoder's work could be on padding. No group has
    more than `most_tokens`, with padding, unless it is of one, nor more than `most_padded` times
    its real tokens. If that is None, groups are not padded.
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

"""The sentences of one beam width that a worker has in flight, a slot of the cache each.

They step together, whatever place each has come to; a sentence that is done or given up leaves, and
others join, between any two steps.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from dragoman.errors import DragomanError
from dragoman.manifest import SpecialIds
from serving.engine.cache import Cache, CacheShape, Ids, KeysValues
from serving.engine.job import Job
from serving.engine.searches import begin_searches
from serving.engine.session import Session
from serving.engine.statistics import Statistics


class DeadlineExceeded(DragomanError):
    """The sentence's deadline passed before its translation was done."""


_CHECK_S = 0.005
"""How often sentences in flight are asked whether anyone still wants them."""


class Batch:
    """Steps its sentences, all of one width."""

    def __init__(
        self, shape: CacheShape, width: int, special_ids: SpecialIds, statistics: Statistics
    ) -> None:
        """Begin without sentences.

        Args:
            shape: of the cache.
            width: of every sentence's beam.
            special_ids: of the model's vocabulary.
            statistics: where to count what becomes of the sentences.
        """
        self._ids = special_ids
        self._width = width
        self._statistics = statistics
        self._cache = Cache(shape, width)
        self._searches = begin_searches(width, special_ids.end)
        self.jobs: list[Job] = []
        """The sentences in flight, by slot."""
        self._fresh: list[Job] = []
        """Those without a token."""
        self._next_check_s = 0.0
        self._tokens = np.zeros(0, np.int64)
        self._positions = np.zeros(0, np.int64)
        self._longest = 0
        """Tokens that the furthest sentence has said."""

    @property
    def rows(self) -> int:
        """Rows in flight."""
        return self._cache.rows

    @property
    def nbytes(self) -> int:
        """Bytes of the cache."""
        return self._cache.nbytes

    def join(self, jobs: Sequence[Job], cross: Sequence[KeysValues], src_lengths: Ids) -> None:
        """Take encoded sentences in.

        Args:
            jobs: N sentences of this batch's width.
            cross: their keys and values [N, H, S, D], by layer and kind.
            src_lengths: [N].
        """
        self._cache.join(cross, src_lengths)
        self._searches.join([job.sentence for job in jobs])
        self.jobs += jobs
        self._fresh += jobs
        self._next_check_s = 0.0  # some may have waited too long
        begin = np.full(len(jobs) * self._width, self._ids.begin)
        self._tokens = np.concatenate((self._tokens, begin))
        self._positions = np.concatenate((self._positions, np.zeros_like(begin)))

    def step(self, session: Session) -> None:
        """Bring every sentence one token further; settle and let go of those that are done."""
        if given_up := self._given_up():
            self._leave(given_up)
        if not self.jobs:
            return
        self._longest += 1
        self._cache.fit(self._longest)
        logits = session.step(self._cache, self._tokens, self._positions)
        self._positions += 1
        advance = self._searches.advance(session, logits)
        self._tokens = advance.tokens
        if advance.copies:
            self._cache.copy_rows(advance.copies)
        self._report()
        if advance.done:
            self._finish(advance.done)
            self._leave(advance.done)

    def _report(self) -> None:
        if self._fresh:
            now_s = time.monotonic()
            for job in self._fresh:
                job.first_token_s = now_s
            self._fresh = []
        for slot, job in enumerate(self.jobs):
            if job.progress is not None:
                job.progress(self._searches.certain(slot))

    def _given_up(self) -> list[int]:
        """Slots of sentences that nobody waits for any more."""
        now_s = time.monotonic()
        if now_s < self._next_check_s:
            return []
        self._next_check_s = now_s + _CHECK_S
        slots = []
        for slot, job in enumerate(self.jobs):
            if job.future.done():
                self._statistics.add(cancelled=1)
                slots.append(slot)
            elif job.overdue(now_s) and job.finish(
                DeadlineExceeded("the deadline passed while it was being translated")
            ):
                self._statistics.add(overdue=1)
                slots.append(slot)
        return slots

    def _finish(self, slots: Sequence[int]) -> None:
        for slot in slots:
            job, result = self.jobs[slot], self._searches.result(slot)
            # Counted before anyone can know that it is done.
            self._statistics.completed(job, len(result.ids))
            job.finish(result)

    def _leave(self, slots: Sequence[int]) -> None:
        """Free slots, given in rising order; the last sentence takes each one's place."""
        width = self._width
        for slot in reversed(slots):
            last = self.jobs.pop()
            self._searches.leave(slot)
            end = len(self.jobs) * width
            self._cache.leave(slot, int(self._positions[end]))
            if slot < len(self.jobs):
                self.jobs[slot] = last
                rows, last_rows = slice(slot * width, (slot + 1) * width), slice(end, end + width)
                self._tokens[rows] = self._tokens[last_rows]
                self._positions[rows] = self._positions[last_rows]
            self._tokens, self._positions = self._tokens[:end], self._positions[:end]
        self._longest = int(self._positions.max(initial=0))

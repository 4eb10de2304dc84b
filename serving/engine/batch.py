"""The sentences of one beam width that a worker has in flight, a slot of the cache each.

They step together, whatever place each has come to; a sentence that is done or given up leaves, and
others join, between any two steps.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from dragoman.errors import DragomanError
from dragoman.manifest import SpecialIds
from serving.engine.cache import Cache, CacheShape, Floats, Ids, KeysValues
from serving.engine.job import Job
from serving.engine.search import BeamSearch, GreedySearch, Search, begin_search, candidates
from serving.engine.session import Session
from serving.engine.statistics import Statistics


class DeadlineExceeded(DragomanError):
    """The sentence's deadline passed before its translation was done."""


@dataclass
class _InFlight:
    job: Job
    search: Search
    position: int = 0


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
        self._in_flight: list[_InFlight] = []
        self._tokens = np.zeros(0, np.int64)
        self._positions = np.zeros(0, np.int64)
        self._longest = 0
        """Tokens that the furthest sentence has said."""

    @property
    def rows(self) -> int:
        """Rows in flight."""
        return self._cache.rows

    @property
    def jobs(self) -> list[Job]:
        """The sentences in flight."""
        return [in_flight.job for in_flight in self._in_flight]

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
        self._in_flight += [
            _InFlight(job, begin_search(job.sentence, self._ids.end)) for job in jobs
        ]
        begin = np.full(len(jobs) * self._width, self._ids.begin)
        self._tokens = np.concatenate((self._tokens, begin))
        self._positions = np.concatenate((self._positions, np.zeros_like(begin)))

    def step(self, session: Session) -> None:
        """Bring every sentence one token further; settle and let go of those that are done."""
        if given_up := self._given_up():
            self._leave(given_up)
        if not self._in_flight:
            return
        self._longest += 1
        self._cache.fit(self._longest)
        logits = session.step(self._cache, self._tokens, self._positions)
        self._positions += 1
        if self._width == 1:
            self._choose_best(session.likeliest(logits))
        else:
            self._choose_beams(*session.best(logits, 2 * self._width))
        for in_flight in self._in_flight:
            job = in_flight.job
            if in_flight.position == 0:
                job.first_token_s = time.monotonic()
            in_flight.position += 1
            if job.progress is not None:
                job.progress(in_flight.search.certain())
        if done := self._done():
            self._leave(done)

    def _choose_best(self, tokens: Ids) -> None:
        self._tokens = tokens
        for in_flight, token in zip(self._in_flight, tokens.tolist(), strict=True):
            cast(GreedySearch, in_flight.search).advance(token)

    def _choose_beams(self, top_scores: Floats, top_ids: Ids) -> None:
        searches = [cast(BeamSearch, in_flight.search) for in_flight in self._in_flight]
        found = candidates(searches, top_scores, top_ids)
        for slot, (search, of_search) in enumerate(zip(searches, found, strict=True)):
            continuation = search.advance(of_search)
            if continuation is None:
                continue
            first = slot * self._width
            self._tokens[first : first + self._width] = continuation.tokens
            copies = [
                (first + parent, first + row)
                for row, parent in enumerate(continuation.parents)
                if row != parent
            ]
            if copies:
                self._cache.copy_rows(copies, self._in_flight[slot].position + 1)

    def _given_up(self) -> list[int]:
        """Slots of sentences that nobody waits for any more."""
        now_s = time.monotonic()
        slots = []
        for slot, in_flight in enumerate(self._in_flight):
            job = in_flight.job
            late = DeadlineExceeded("the deadline passed while it was being translated")
            if job.overdue(now_s) and job.finish(late):
                self._statistics.add(overdue=1)
                slots.append(slot)
            elif job.future.done():
                self._statistics.add(cancelled=1)
                slots.append(slot)
        return slots

    def _done(self) -> list[int]:
        slots = []
        for slot, in_flight in enumerate(self._in_flight):
            result = in_flight.search.result
            if result is None:
                continue
            # Counted before anyone can know that it is done.
            self._statistics.completed(in_flight.job, len(result.ids))
            in_flight.job.finish(result)
            slots.append(slot)
        return slots

    def _leave(self, slots: Sequence[int]) -> None:
        """Free slots, given in rising order; the last sentence takes each one's place."""
        width = self._width
        for slot in reversed(slots):
            last = self._in_flight.pop()
            self._cache.leave(slot, last.position)
            end = len(self._in_flight) * width
            if slot < len(self._in_flight):
                self._in_flight[slot] = last
                rows, last_rows = slice(slot * width, (slot + 1) * width), slice(end, end + width)
                self._tokens[rows] = self._tokens[last_rows]
                self._positions[rows] = self._positions[last_rows]
            self._tokens, self._positions = self._tokens[:end], self._positions[:end]
        self._longest = int(self._positions.max(initial=0))

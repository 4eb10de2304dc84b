"""The engine: sentences in, futures of hypotheses out."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np

from dragoman.errors import DragomanError
from dragoman.hypothesis import Hypothesis
from dragoman.manifest import SpecialIds
from serving.engine.cache import Cache, Ids
from serving.engine.scheduler import BatchLimits, Scheduler, length_groups
from serving.engine.search import Search
from serving.engine.sentence import Sentence
from serving.engine.session import Session

log = logging.getLogger(__name__)


class EngineFailure(DragomanError):
    """The engine could not translate a batch, through no fault of the request."""


@dataclass(frozen=True)
class _Job:
    sentence: Sentence
    future: Future[Hypothesis] = field(default_factory=Future)


def _src_length(job: _Job) -> int:
    return len(job.sentence.src_ids)


class Engine:
    """Translates what waits, a batch at a time, in one worker thread a session."""

    def __init__(
        self,
        sessions: Sequence[Session],
        special_ids: SpecialIds,
        limits: BatchLimits | None = None,
    ) -> None:
        """Start the worker threads.

        Args:
            sessions: the graphs, once a worker; from now on this engine's alone.
            special_ids: of the model's vocabulary.
            limits: bounds on rows and waiting sentences.
        """
        self._special_ids = special_ids
        self._scheduler: Scheduler[_Job] = Scheduler(limits or BatchLimits())
        self._workers = [
            threading.Thread(
                target=self._work, args=(session,), name=f"dragoman-engine-{index}", daemon=True
            )
            for index, session in enumerate(sessions)
        ]
        for worker in self._workers:
            worker.start()

    def submit(self, sentences: Sequence[Sentence]) -> list[Future[Hypothesis]]:
        """Let sentences wait for translation, all or none of them.

        Returns:
            A future a sentence, in their order.

        Raises:
            Overloaded: too many are waiting.
            Closed: the engine was closed.
        """
        jobs = [_Job(sentence) for sentence in sentences]
        # Sentences of like length together waste the least padding.
        self._scheduler.add(sorted(jobs, key=_src_length))
        return [job.future for job in jobs]

    def close(self) -> None:
        """Translate what waits, then stop. Further submissions are refused."""
        self._scheduler.close()
        for worker in self._workers:
            worker.join()

    def _work(self, session: Session) -> None:
        while batch := self._scheduler.next_batch():
            try:
                self._translate(session, batch)
            except Exception as error:  # whatever it was, these requests must hear of it
                log.exception("a batch of %d sentences failed", len(batch))
                for job in batch:
                    if not job.future.done():
                        job.future.set_exception(
                            EngineFailure(f"the engine failed: {type(error).__name__}")
                        )

    def _encode(self, session: Session, sources: Sequence[Sequence[int]]) -> Cache:
        src_lengths = np.array([len(ids) for ids in sources])
        src_ids = np.full((len(sources), src_lengths.max()), self._special_ids.pad, np.int64)
        for row, ids in zip(src_ids, sources, strict=True):
            row[: len(ids)] = ids
        return session.encode(src_ids, src_lengths)

    def _translate(self, session: Session, jobs: Sequence[_Job]) -> None:
        jobs = sorted(jobs, key=_src_length)  # they may be of several submissions
        sources = [job.sentence.src_ids for job in jobs]
        groups = length_groups([len(ids) for ids in sources])
        cache = Cache.joined([self._encode(session, sources[group]) for group in groups])
        active = [(job, Search(job.sentence, self._special_ids.end)) for job in jobs]
        tokens = np.full(len(jobs), self._special_ids.begin)
        position = 0
        while active:
            if position == cache.capacity:
                cache.grow()
            positions = np.full(len(tokens), position)
            top_scores, top_ids = session.step(cache, tokens, positions)
            position += 1
            first_row = 0
            rows: list[int] = []
            next_tokens: list[int] = []
            going_on = []
            sources_stay = True
            for job, search in active:
                before = search.rows
                part = slice(first_row, first_row + before)
                continuations = search.advance(top_scores[part], top_ids[part])
                sources_stay &= len(continuations) == before
                rows += [first_row + continuation.parent for continuation in continuations]
                next_tokens += [continuation.token for continuation in continuations]
                first_row += before
                if search.result is None:
                    going_on.append((job, search))
                else:
                    job.future.set_result(search.result)
            active = going_on
            if not active:
                return
            _reorder(session, cache, np.array(rows), sources_stay)
            tokens = np.array(next_tokens)


def _reorder(session: Session, cache: Cache, rows: Ids, sources_stay: bool) -> None:
    """Make the cache that of these rows; most steps of greedy search change nothing."""
    if not sources_stay:
        cache.select_sources(rows)
    if len(rows) != len(cache.past[0]) or (rows != np.arange(len(rows))).any():
        session.reorder(cache, rows)

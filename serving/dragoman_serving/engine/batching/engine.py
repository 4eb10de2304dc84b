"""The engine: translates sentences with in-flight batching, and returns futures."""

from __future__ import annotations

import ctypes
import itertools
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.manifest import SpecialIds
from dragoman_serving.engine.batching.acceptance import Arrival
from dragoman_serving.engine.batching.batch import Batch, length_groups
from dragoman_serving.engine.batching.dispatcher import Dispatcher
from dragoman_serving.engine.batching.job import Job, Kind, Progress, State
from dragoman_serving.engine.batching.memory_trimming import give_back
from dragoman_serving.engine.batching.pace import PaceMeter
from dragoman_serving.engine.batching.scheduler import Scheduler
from dragoman_serving.engine.batching.search_spans import trace_search
from dragoman_serving.engine.batching.statistics import Statistics
from dragoman_serving.engine.batching.waiting_queue import Turns
from dragoman_serving.engine.errors import Closed, DeadlineExceeded, EngineFailure, Overloaded
from dragoman_serving.engine.futures import Future
from dragoman_serving.engine.network import Measured, Network
from dragoman_serving.engine.sentence import Sentence
from dragoman_serving.engine.settings import BatchLimits, Tuning

log = logging.getLogger(__name__)

_SWEEP_S = 0.02
"""Seconds between searches of the queue for cancelled or overdue sentences."""
_SWEEP_PER_SENTENCE_S = 10e-6
"""Added for each waiting sentence, so that a long queue is not searched all the time."""


class Engine:
    """Translates sentences with in-flight batching, in several worker threads."""

    def __init__(
        self,
        network: Network,
        special_ids: SpecialIds,
        workers: int = 1,
        limits: BatchLimits | None = None,
        on_failure: Callable[[EngineFailure], None] | None = None,
        tuning: Tuning | None = None,
        statistics: Statistics | None = None,
    ) -> None:
        """Start the worker threads.

        Args:
            network: the model.
            special_ids: special ids of the model's vocabulary.
            workers: number of worker threads.
            limits: limits of rows and waiting sentences.
            on_failure: called once, in a thread of the engine, after the engine has failed and
                settled all sentences.
            tuning: measured tuning parameters.
            statistics: counters to use; None: new ones.
        """
        self._network = network
        self._special_ids = special_ids
        self._on_failure = on_failure
        self.statistics = statistics or Statistics()
        self._limits = limits or BatchLimits()
        self._tuning = tuning or Tuning()
        self._meter = PaceMeter(workers)
        lone_rows = self._tuning.lone_rows if network.gains_alone else 0
        self._scheduler = Scheduler(self._limits, workers, lone_rows, self._tuning)
        self._dispatcher = Dispatcher(self._scheduler, self._meter, self._tuning.idle_s)
        self._batches: list[dict[Kind, Batch]] = [{} for _ in range(workers)]
        self._failed = threading.Lock()
        self._closed = threading.Event()
        self._workers = [
            threading.Thread(
                target=self._work, args=(index,), name=f"dragoman-engine-{index}", daemon=True
            )
            for index in range(workers)
        ]
        self._sweeper = threading.Thread(
            target=self._sweep, name="dragoman-engine-sweeper", daemon=True
        )
        for thread in (*self._workers, self._sweeper):
            thread.start()

    def reserve(self, sentences: Sequence[Sentence], turns: Turns, total: int) -> None:
        """Reserve space for a request, unless it cannot be translated in time.

        Args:
            sentences: the known sentences of the request, with the same priority and deadline.
            turns: turns for all its sentences; pass it to `submit`, and finally to `release`.
            total: total number of sentences. Unknown ones are assumed to be like the known ones.

        Raises:
            Overloaded: too much other work is waiting, or the request is too large.
            DeadlineExceeded: its own work exceeds its deadline.
        """
        if not sentences:
            return
        lengths = [len(sentence.src_ids) for sentence in sentences]
        work = sum([sentence.options.rows * len(sentence.src_ids) for sentence in sentences])
        first = sentences[0]
        arrival = Arrival(
            total,
            work * total // len(sentences),
            max(lengths),
            first.priority,
            _left_s(first.deadline_s),
        )
        self._reserve(arrival, turns)

    def check_space(self, sentences: int, priority: int, deadline_s: float | None) -> None:
        """Refuse a request with at least this number of sentences before it is tokenized.

        For engines with waiting sentences; others refuse none.

        Raises:
            Overloaded: see `reserve`.
        """
        if sentences:
            self._reserve(Arrival(sentences, 0, 0, priority, _left_s(deadline_s)), None)

    def _reserve(self, arrival: Arrival, turns: Turns | None) -> None:
        try:
            self._dispatcher.reserve(arrival, turns)
        except Overloaded:
            self.statistics.add(rejected=arrival.items)
            raise
        except DeadlineExceeded:
            self.statistics.add(overdue=arrival.items)
            raise

    def release(self, turns: Turns) -> None:
        """Release a request's unused space, and reserve nothing for it again."""
        self._dispatcher.release(turns)

    def submit(
        self,
        sentences: Sequence[Sentence],
        progress: Sequence[Progress] | None = None,
        turns: Turns | None = None,
    ) -> list[Future[Hypothesis]]:
        """Queue sentences for translation, all or none of them.

        Args:
            sentences: sentences to translate.
            progress: for each of them, a callback for its tokens.
            turns: turns of the request, if it has other sentences.

        Returns:
            One future per sentence, in their order. Cancelling it cancels the sentence.

        Raises:
            Overloaded: too many are waiting.
            Closed: the engine was closed.
            EngineFailure: the engine is broken.
        """
        reports = progress or itertools.repeat(None, len(sentences))
        jobs = [Job(sentence, report) for sentence, report in zip(sentences, reports, strict=True)]
        try:
            # Streamed sentences are read from the beginning, so they keep their order.
            self._dispatcher.add(jobs if progress else self._deal(jobs), turns or Turns())
        except Overloaded:
            self.statistics.add(rejected=len(jobs))
            raise
        if sentences and (trace := sentences[0].trace) is not None:
            trace_search(trace, jobs)
        return [job.future for job in jobs]

    def _deal(self, jobs: Sequence[Job]) -> list[Job]:
        """Orders sentences so that those of similar length are together, which needs less padding.

        Each worker takes its share from the front of the queue, so every share gets all lengths.
        """
        if len(jobs) == 1:
            return list(jobs)
        by_length = sorted(jobs, key=_src_length)
        return [job for hand in range(self.workers) for job in by_length[hand :: self.workers]]

    @property
    def waiting(self) -> int:
        """Number of waiting sentences."""
        return len(self._scheduler.line)

    @property
    def rows(self) -> int:
        """Rows in flight."""
        return self._scheduler.rows

    @property
    def workers(self) -> int:
        """Number of worker threads."""
        return len(self._workers)

    @property
    def most_rows(self) -> int:
        """Maximum rows in flight."""
        return self._limits.rows * len(self._workers)

    def most_bytes(self, widest: int) -> int:
        """Returns the maximum bytes of the caches of one kind of search, in all workers.

        Sentences have up to `widest` rows; with alternatives more, up to the limit of a worker.
        """
        return self.workers * most_bytes(self._network, self._limits, widest)

    @property
    def nbytes(self) -> int:
        """Bytes of the caches."""
        batches = [list(of_worker.values()) for of_worker in self._batches]
        return sum(batch.nbytes for of_worker in batches for batch in of_worker)

    def close(self) -> None:
        """Translate the waiting sentences, then stop. New submissions are refused."""
        self._dispatcher.close()
        for worker in self._workers:
            worker.join()
        for job in self._dispatcher.drop(lambda _job: True):
            job.settle(State.FAILED, Closed("the engine has been shut down"))
        self._closed.set()
        self._sweeper.join()

    def _work(self, worker: int) -> None:
        batches = self._batches[worker]
        joining: Sequence[Job] = ()
        busy_since_s: float | None = None
        decided_rows = steps = 0
        pending = self._dispatcher.pending[worker]
        try:
            while True:
                rows = _rows(batches)
                if rows != decided_rows or not rows or self._may_change():
                    decision = self._dispatcher.decide(worker, rows, self._kinds(batches), steps)
                    if decision.ends:
                        return
                    joining = decision.joining
                    if decision.late:
                        why = "the deadline passes before it can be translated"
                        self._give_up(decision.late, why)
                    if joining:
                        self._begin(joining, batches, decision.alone)
                    rows = decided_rows = _rows(batches)
                    if batches and decision.waits:  # idle for a while
                        batches.clear()
                        give_back()
                steps = _step(batches, self._scheduler.is_alone(worker), pending)
                busy_since_s = self._measure(rows, steps, busy_since_s)
        except BaseException as error:  # every error must reach all waiting requests
            self._fail(error, joining)

    def _kinds(self, batches: Mapping[Kind, Batch]) -> Collection[Kind]:
        """The kinds of searches that a worker has in flight, if their number is limited."""
        if self._limits.kinds is None:
            return ()
        return [kind for kind, batch in batches.items() if batch.rows]

    def _may_change(self) -> bool:
        """Whether a worker's decision may have changed, although its rows have not.

        Checked without the scheduler's lock, which would take a tenth of a small step.
        """
        return len(self._scheduler.line) > 0 or self._network.gains_alone

    def _measure(self, rows: int, steps: int, busy_since_s: float | None) -> float | None:
        """Measure steps if the worker was busy all the time since the step before.

        Args:
            rows: rows of each step.
            steps: number of steps.
            busy_since_s: end of the step before, if others waited then; else None.

        Returns:
            `busy_since_s` for the next step.
        """
        if 2 * rows < self._limits.rows or not self._scheduler.line:
            return None
        now_s = time.monotonic()
        if busy_since_s is not None:
            self._meter.stepped(rows, now_s - busy_since_s, steps)
        return now_s

    def _give_up(self, unwanted: Sequence[Job], why: str) -> None:
        """Settle sentences that were cancelled or are overdue."""
        for job in unwanted:
            job.give_up(why)
            self.statistics.gave_up(job)

    def _begin(self, jobs: Sequence[Job], batches: dict[Kind, Batch], alone: bool) -> None:
        """Add sentences to the batches of their kind."""
        now_s = time.monotonic()
        most_padded = self._tuning.encoder_padding if self._network.pads_sources else None
        for kind in sorted({job.kind for job in jobs}):
            joining = sorted((job for job in jobs if job.kind == kind), key=_src_length)
            if kind not in batches:
                for empty in [other for other, batch in batches.items() if not batch.rows]:
                    del batches[empty]  # free its memory before more is allocated
                width, searches = kind
                decoding = self._network.begin(
                    width, self._special_ids, slots(self._limits, width * searches), searches
                )
                batches[kind] = Batch(decoding, self.statistics, self._meter)
            lengths = [_src_length(job) for job in joining]
            for group in length_groups(lengths, self._tuning.encoder_tokens, most_padded):
                batches[kind].join(joining[group], alone)
                for job in joining[group]:
                    job.joined_s = now_s
        self.statistics.joined(jobs, now_s)

    def _sweep(self) -> None:
        """Remove waiting sentences that were cancelled or are overdue."""
        while not self._closed.wait(_SWEEP_S + _SWEEP_PER_SENTENCE_S * self.waiting):
            now_s = time.monotonic()
            unwanted = self._dispatcher.drop(lambda job: not job.is_wanted(now_s))  # noqa: B023
            self._give_up(unwanted, "the deadline passed while it waited")

    def _fail(self, error: BaseException, joining: Sequence[Job]) -> None:
        """Fail all sentences, because the state is not reliable after a worker has failed."""
        log.error("the engine broke", exc_info=error)
        failure = EngineFailure(f"the engine failed: {type(error).__name__}")
        self._dispatcher.close(failure)
        waiting = self._dispatcher.drop(lambda _job: True)
        in_flight = [
            job for batches in self._batches for b in list(batches.values()) for job in b.jobs
        ]
        for job in (*waiting, *joining, *in_flight):
            job.settle(State.FAILED, failure)
        self._closed.set()
        if self._failed.acquire(blocking=False) and self._on_failure is not None:
            self._on_failure(failure)


def most_bytes(network: Measured, limits: BatchLimits, widest: int) -> int:
    """Returns the maximum bytes of the caches of one kind of search in one worker."""
    return max(network.most_bytes(width, slots(limits, width)) for width in range(1, widest + 1))


def slots(limits: BatchLimits, width: int) -> int:
    """Returns the maximum sentences of `width` rows of a worker; a single one may exceed it."""
    return max(1, limits.rows // width)


def _left_s(deadline_s: float | None) -> float | None:
    return None if deadline_s is None else deadline_s - time.monotonic()


def _rows(batches: Mapping[Kind, Batch]) -> int:
    """The rows of a worker in flight."""
    rows = 0
    for batch in batches.values():
        rows += batch.rows
    return rows


def _step(batches: dict[Kind, Batch], alone: bool, pending: ctypes.c_int64) -> int:
    """Run a step of all batches, or several of a single one until a decision is pending."""
    # A separate function, because a local variable of the worker would keep a removed batch alive.
    if len(batches) == 1:
        (batch,) = batches.values()
        return batch.step(alone, pending)
    is_single = sum(batch.rows > 0 for batch in batches.values()) == 1
    steps = 1
    for kind, batch in list(batches.items()):
        steps = max(steps, batch.step(alone, pending if is_single else None))
        if not batch.rows and len(batches) > 1:
            del batches[kind]  # only the last one keeps its memory for later sentences
    return steps


def _src_length(job: Job) -> int:
    return len(job.sentence.src_ids)

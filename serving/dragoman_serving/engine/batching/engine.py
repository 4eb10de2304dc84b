"""The engine: sentences in, futures of hypotheses out, batched as they come and go."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future

from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.manifest import SpecialIds
from dragoman_serving.engine.batching.acceptance import Arrival
from dragoman_serving.engine.batching.batch import Batch, length_groups
from dragoman_serving.engine.batching.dispatcher import Dispatcher
from dragoman_serving.engine.batching.heap import give_back
from dragoman_serving.engine.batching.job import Job, Kind, Progress, State
from dragoman_serving.engine.batching.line import Turns
from dragoman_serving.engine.batching.pace import PaceMeter
from dragoman_serving.engine.batching.scheduler import Scheduler
from dragoman_serving.engine.batching.search_spans import trace_search
from dragoman_serving.engine.batching.statistics import Statistics
from dragoman_serving.engine.errors import Closed, DeadlineExceeded, EngineFailure, Overloaded
from dragoman_serving.engine.network import Measured, Network
from dragoman_serving.engine.sentence import Sentence
from dragoman_serving.engine.settings import BatchLimits, Tuning

log = logging.getLogger(__name__)

_SWEEP_S = 0.02
"""How often the waiting line is searched for sentences that nobody wants any more."""
_SWEEP_PER_SENTENCE_S = 10e-6
"""So that a long line is not searched all the time."""


class Engine:
    """Translates with in-flight batching, in several worker threads."""

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
            special_ids: of the model's vocabulary.
            workers: worker threads.
            limits: bounds on rows and waiting sentences.
            on_failure: called once, in a thread of the engine, after it broke and failed what it
                held.
            tuning: numbers that were chosen by measurements.
            statistics: where to count; None: nothing else counts there.
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
            sentences: those of the request that are known, of one priority and deadline.
            turns: for all its sentences; give it to `submit`, and at last to `release`.
            total: how many it has. The unknown ones are taken to be like the known ones.

        Raises:
            Overloaded: too much other work waits, or the request leaves no space for others.
            DeadlineExceeded: its own work takes longer than it allows.
        """
        if not sentences:
            return
        work = sum(one.options.rows * len(one.src_ids) for one in sentences)
        first = sentences[0]
        arrival = Arrival(
            total,
            work * total // len(sentences),
            max(len(one.src_ids) for one in sentences),
            first.priority,
            _left_s(first.deadline_s),
        )
        self._reserve(arrival, turns)

    def check_space(self, sentences: int, priority: int, deadline_s: float | None) -> None:
        """Refuse at least so many sentences, of whatever lengths, before they are tokenized.

        Raises:
            Overloaded: see `reserve`.
        """
        if self.waiting:
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
        """Give back what a request has reserved and not used, and reserve nothing for it again."""
        self._dispatcher.release(turns)

    def submit(
        self,
        sentences: Sequence[Sentence],
        progress: Sequence[Progress] | None = None,
        turns: Turns | None = None,
    ) -> list[Future[Hypothesis]]:
        """Let sentences wait for translation, all or none of them.

        Args:
            sentences: what to translate.
            progress: for each of them, who wants to hear of its tokens as they come.
            turns: those of the request, if there are other sentences of it.

        Returns:
            A future a sentence, in their order. Cancelling it gives the sentence up.

        Raises:
            Overloaded: too many are waiting.
            Closed: the engine was closed.
            EngineFailure: the engine is broken.
        """
        reports = progress or itertools.repeat(None, len(sentences))
        jobs = [Job(sentence, report) for sentence, report in zip(sentences, reports, strict=True)]
        try:
            # Who hears of the tokens as they come reads them from the beginning.
            self._dispatcher.add(jobs if progress else self._deal(jobs), turns or Turns())
        except Overloaded:
            self.statistics.add(rejected=len(jobs))
            raise
        if sentences and (trace := sentences[0].trace) is not None:
            trace_search(trace, jobs)
        return [job.future for job in jobs]

    def _deal(self, jobs: Sequence[Job]) -> list[Job]:
        """Sentences of like length together, which waste the least padding, dealt out like cards.

        Each worker takes its share from the front, and none may get all the long ones.
        """
        by_length = sorted(jobs, key=_src_length)
        return [job for hand in range(self.workers) for job in by_length[hand :: self.workers]]

    @property
    def waiting(self) -> int:
        """Sentences that wait."""
        return len(self._scheduler.line)

    @property
    def rows(self) -> int:
        """Rows in flight."""
        return self._scheduler.rows

    @property
    def workers(self) -> int:
        """Threads that step sentences of their own."""
        return len(self._workers)

    @property
    def most_rows(self) -> int:
        """Rows that may be in flight at once."""
        return self._limits.rows * len(self._workers)

    def most_bytes(self, widest: int) -> int:
        """Bytes that the caches of one kind of search take at most, in all workers.

        Sentences have up to `widest` rows; or more with alternatives, but no more than a worker.
        """
        return self.workers * most_bytes(self._network, self._limits, widest)

    @property
    def nbytes(self) -> int:
        """Bytes of the caches."""
        batches = [list(of_worker.values()) for of_worker in self._batches]
        return sum(batch.nbytes for of_worker in batches for batch in of_worker)

    def close(self) -> None:
        """Translate what waits, then stop. Further submissions are refused."""
        self._dispatcher.close()
        for worker in self._workers:
            worker.join()
        for job in self._dispatcher.drop(lambda job: True):
            job.settle(State.FAILED, Closed("the engine has been shut down"))
        self._closed.set()
        self._sweeper.join()

    def _work(self, worker: int) -> None:
        batches = self._batches[worker]
        joining: Sequence[Job] = ()
        busy_since_s: float | None = None
        alone = False
        decided_rows = 0
        try:
            while True:
                rows = sum(batch.rows for batch in batches.values())
                if rows != decided_rows or not rows or self._may_change():
                    decision = self._dispatcher.decide(worker, rows, self._kinds(batches))
                    if decision.ends:
                        return
                    joining, alone = decision.joining, decision.alone
                    self._give_up(decision.late, "the deadline passes before it can be translated")
                    if joining:
                        self._begin(joining, batches, alone)
                    rows = decided_rows = sum(batch.rows for batch in batches.values())
                    if batches and decision.waits:  # idle for a while
                        batches.clear()
                        give_back()
                _step(batches, alone)
                busy_since_s = self._measure(rows, busy_since_s)
        except BaseException as error:  # whatever it was, everyone who waits must hear of it
            self._fail(error, joining)

    def _kinds(self, batches: Mapping[Kind, Batch]) -> Collection[Kind]:
        """The kinds of searches that a worker has in flight, where their number is limited."""
        if self._limits.kinds is None:
            return ()
        return [kind for kind, batch in batches.items() if batch.rows]

    def _may_change(self) -> bool:
        """Whether the decision for a worker may be another, though it has as many rows as before.

        Without a look at the scheduler under its lock, which takes a tenth of a small step.
        """
        return len(self._scheduler.line) > 0 or self._network.gains_alone

    def _measure(self, rows: int, busy_since_s: float | None) -> float | None:
        """Count a step if the worker was busy all the time since the one before.

        Args:
            rows: that it has stepped.
            busy_since_s: when the step before was done, if others waited then.

        Returns:
            The same for the next step.
        """
        now_s = time.monotonic()
        if 2 * rows < self._limits.rows or not self._scheduler.line:
            return None
        if busy_since_s is not None:
            self._meter.stepped(rows, now_s - busy_since_s)
        return now_s

    def _give_up(self, unwanted: Sequence[Job], why: str) -> None:
        """Settle sentences that are cancelled or overdue."""
        for job in unwanted:
            job.give_up(why)
            self.statistics.gave_up(job)

    def _begin(self, jobs: Sequence[Job], batches: dict[Kind, Batch], alone: bool) -> None:
        """Let sentences join the batches of searches like theirs."""
        now_s = time.monotonic()
        most_padded = self._tuning.encoder_padding if self._network.pads_sources else None
        for kind in sorted({job.kind for job in jobs}):
            joining = sorted((job for job in jobs if job.kind == kind), key=_src_length)
            if kind not in batches:
                for empty in [one for one, batch in batches.items() if not batch.rows]:
                    del batches[empty]  # gone before there is more
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
        """Remove waiting sentences that are cancelled or overdue."""
        while not self._closed.wait(_SWEEP_S + _SWEEP_PER_SENTENCE_S * self.waiting):
            now_s = time.monotonic()
            unwanted = self._dispatcher.drop(lambda job: not job.is_wanted(now_s))  # noqa: B023
            self._give_up(unwanted, "the deadline passed while it waited")

    def _fail(self, error: BaseException, joining: Sequence[Job]) -> None:
        """Fail everything: a worker that broke leaves nothing that could be trusted."""
        log.error("the engine broke", exc_info=error)
        failure = EngineFailure(f"the engine failed: {type(error).__name__}")
        self._dispatcher.close(failure)
        waiting = self._dispatcher.drop(lambda job: True)
        in_flight = [
            job for batches in self._batches for b in list(batches.values()) for job in b.jobs
        ]
        for job in (*waiting, *joining, *in_flight):
            job.settle(State.FAILED, failure)
        self._closed.set()
        if self._failed.acquire(blocking=False) and self._on_failure is not None:
            self._on_failure(failure)


def most_bytes(network: Measured, limits: BatchLimits, widest: int) -> int:
    """Bytes that the caches of one kind of search take at most in one worker."""
    return max(network.most_bytes(width, slots(limits, width)) for width in range(1, widest + 1))


def slots(limits: BatchLimits, width: int) -> int:
    """Sentences of so many rows that a worker may have; one may have more than all its rows."""
    return max(1, limits.rows // width)


def _left_s(deadline_s: float | None) -> float | None:
    return None if deadline_s is None else deadline_s - time.monotonic()


def _step(batches: dict[Kind, Batch], alone: bool) -> None:
    """Bring every sentence one token further."""
    # In a function of its own: a variable of the worker's would hold a batch that was dropped.
    for kind, batch in list(batches.items()):
        batch.step(alone)
        if not batch.rows and len(batches) > 1:
            del batches[kind]  # one may keep its memory for what comes next


def _src_length(job: Job) -> int:
    return len(job.sentence.src_ids)

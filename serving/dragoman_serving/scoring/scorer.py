"""Scores translations: the log-probability of each token, and attention.

Manages the queue of pairs, their deadlines and batches.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dragoman.kernel.errors import DragomanError, InvalidRequest
from dragoman.kernel.manifest import Manifest
from dragoman_serving.engine.batching.acceptance import Arrival, BoundedLine
from dragoman_serving.engine.batching.job import Awaited, State
from dragoman_serving.engine.batching.pace import PaceMeter
from dragoman_serving.engine.batching.waiting_queue import Turns
from dragoman_serving.engine.futures import Future, outcome_error
from dragoman_serving.engine.request_trace import RequestTrace, when_settled
from dragoman_serving.engine.settings import Tuning
from dragoman_serving.scoring.score_graphs import AttentionGraph, ScoreGraph
from dragoman_serving.scoring.token_pair import Floats, PairScoring, Scored, TokenPair, like_lengths

log = logging.getLogger(__name__)


class ScoringFailure(DragomanError):
    """The graph could not be loaded or run; the request is not at fault."""


class _Job(Awaited[Scored]):
    def __init__(self, pair: TokenPair) -> None:
        super().__init__(1, pair.priority, pair.deadline_s)
        self.pair = pair
        self.length = len(pair.tgt_ids) + 1, len(pair.src_ids)


class Scorer:
    """Scores pairs in a thread of its own, in batches of similar lengths.

    It uses compiled code in int8 if available, else the bundle's graph in fp32, which is loaded at
    first use. The last digits of the graph's results depend on the batch; those of compiled code do
    not.
    """

    def __init__(
        self,
        bundle: Path,
        manifest: Manifest,
        most_waiting: int = 40_000,
        tuning: Tuning | None = None,
        scoring: PairScoring | None = None,
    ) -> None:
        """Start without the graph.

        Args:
            bundle: folder of the bundle.
            manifest: its manifest, checked.
            most_waiting: pairs that may wait; more are refused.
            tuning: measured tuning parameters.
            scoring: the compiled code; None: the graph.
        """
        self._bundle, self._manifest = bundle, manifest
        limits = manifest.limits
        self._most_ids = limits.max_source_tokens, limits.max_target_tokens
        self._most_waiting = most_waiting
        self._scoring = scoring
        self._attention_graph: AttentionGraph | None = None
        tuning = tuning or Tuning()
        self._most_together = tuning.score_tokens
        self._waiting: BoundedLine[_Job] = BoundedLine(
            most_waiting, "translations wait to be scored", most_waiting, tuning
        )
        self._meter = PaceMeter(workers=1)
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @property
    def most_of_request(self) -> int:
        """Maximum number of pairs of one request."""
        return self._most_waiting // 2

    def check(self, pairs: int, priority: int = 0, deadline_s: float | None = None) -> None:
        """Refuse a request that cannot be scored in time, or that is too large for the queue.

        Args:
            pairs: number of its pairs.
            priority: priority of the request.
            deadline_s: its deadline, on the clock of `time.monotonic`.

        Raises:
            Overloaded: too many others wait, or it would take more than half of the free space.
            DeadlineExceeded: the request would exceed its deadline.
        """
        left_s = None if deadline_s is None else deadline_s - time.monotonic()
        arrival = Arrival(pairs, pairs, priority=priority, left_s=left_s)
        with self._changed:
            if refusal := self._waiting.reserve(arrival, self._meter.pace):
                raise refusal

    def submit(self, pairs: Sequence[TokenPair]) -> list[Future[Scored]]:
        """Queue pairs to be scored, all or none of them.

        Returns:
            One future per pair, in their order. Cancelling it cancels the pair.

        Raises:
            InvalidRequest: a pair has more tokens than the model's limits.
            Overloaded: too many are waiting.
            Closed: the scorer was closed.
        """
        for pair in pairs:
            self._check_length(pair)
        jobs = [_Job(pair) for pair in pairs]
        with self._changed:
            if refusal := self._waiting.accept(jobs, Turns()):
                raise refusal
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="dragoman-scorer", daemon=True
                )
                self._thread.start()
            self._changed.notify()
        if pairs and (trace := pairs[0].trace) is not None:
            _trace_scoring(trace, jobs)
        return [job.future for job in jobs]

    def close(self) -> None:
        """Score the queued pairs, then stop. New submissions are refused."""
        with self._changed:
            self._waiting.close()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _check_length(self, pair: TokenPair) -> None:
        sides = ("text", len(pair.src_ids)), ("translation", len(pair.tgt_ids) + pair.complete)
        for (what, tokens), most in zip(sides, self._most_ids, strict=True):
            if tokens > most:
                raise InvalidRequest(
                    f"a {what} of {tokens} tokens cannot be scored, more than {most}: "
                    "send shorter texts",
                    "too_large",
                )

    def _work(self) -> None:
        while (jobs := self._take()) is not None:
            begin_s = time.monotonic()
            try:
                jobs.sort(key=lambda job: job.length)
                for group in like_lengths([job.length for job in jobs]):
                    self._score(jobs[group])
            except Exception as error:  # the thread must survive for the other pairs
                _fail(jobs, error)
            self._measure(len(jobs), time.monotonic() - begin_s)
            del jobs  # do not keep them alive while waiting for others

    def _take(self) -> list[_Job] | None:
        """Waits for the next batch; None if the scorer was closed and the queue is empty."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting) or self._waiting.is_closed)
            if not self._waiting:
                return None
            # Pairs at the end of a long queue must fail as soon as their deadline has passed.
            now_s = time.monotonic()
            unwanted = self._waiting.drop(lambda job: not job.is_wanted(now_s))
            taken: list[_Job] = []
            tokens = 0
            while self._waiting and tokens < self._most_together:
                taken.append(self._waiting.take())
                tokens += max(taken[-1].length)
        _give_up(unwanted)
        return taken

    def _measure(self, pairs: int, elapsed_s: float) -> None:
        """Measure the throughput, counting pairs as rows of one step, if others waited."""
        if self._waiting:
            self._meter.stepped(pairs, elapsed_s)
            self._meter.finished(steps=pairs, src_tokens=pairs)

    def _score(self, jobs: Sequence[_Job]) -> None:
        """Score pairs as one batch, and settle their futures."""
        now_s = time.monotonic()
        live = [job for job in jobs if job.is_wanted(now_s)]
        _give_up([job for job in jobs if job not in live])
        if not live:
            return
        try:
            if self._scoring is None:
                self._scoring = ScoreGraph(self._bundle, self._manifest)
            all_scored = [
                replace(scored, heads=self._heads(job.pair))
                for job, scored in zip(
                    live, self._scoring.run([job.pair for job in live]), strict=True
                )
            ]
        except Exception as error:  # every error must reach the waiting requests
            if self._scoring is None or len(live) == 1:
                _fail(live, error)
                return
        else:
            for job, scored in zip(live, all_scored, strict=True):
                job.settle(State.DONE, scored)
            return
        for job in live:  # retry one by one, because only some of them may fail
            self._score([job])

    def _heads(self, pair: TokenPair) -> tuple[Floats, ...] | None:
        if not pair.heads:
            return None
        if self._attention_graph is None:
            self._attention_graph = AttentionGraph(self._bundle, self._manifest)
        return self._attention_graph.run(pair)


def _trace_scoring(trace: RequestTrace, jobs: Sequence[_Job]) -> None:
    """Add a span to a trace when all of these jobs have ended; it includes their waiting time."""
    begin_s = time.monotonic()
    attributes = {
        "sentences": len(jobs),
        "input_tokens": sum(len(job.pair.src_ids) for job in jobs),
        "output_tokens": sum(len(job.pair.tgt_ids) for job in jobs),
    }

    def add() -> None:
        errors = (outcome_error(job.future) for job in jobs)
        error = next(filter(None, errors), None)
        trace.add("score", begin_s, time.monotonic(), attributes, error)

    when_settled([job.future for job in jobs], add)


def _give_up(unwanted: Sequence[_Job]) -> None:
    """Settle pairs that were cancelled or are past their deadline."""
    for job in unwanted:
        job.give_up("the deadline passed before it was scored")


def _fail(jobs: Sequence[_Job], error: Exception) -> None:
    """Settle pairs that cannot be scored, unless they are already settled."""
    log.error("translations cannot be scored", exc_info=error)
    what = str(error) if isinstance(error, DragomanError) else type(error).__name__
    for job in jobs:
        job.settle(State.FAILED, ScoringFailure(f"scoring failed: {what}"))

"""What the model thinks of given translations: a log-probability a token, and where it looked.

Knows the bundle's graphs `score` and `attention`, and token ids; must not know text, requests or
Triton. The graphs are run in fp32 whatever precision the engine decodes in.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime

from dragoman.errors import DragomanError
from dragoman.manifest import AlignmentHeads, Manifest
from dragoman.tensors import ATTENTION_GRAPH, ATTENTION_NAMES
from serving.engine.batch import DeadlineExceeded
from serving.engine.onnx_session import open_graph
from serving.engine.scheduler import Closed, Overloaded

log = logging.getLogger(__name__)

_GRAPH = "score"
_MOST_TOKENS = 1024
"""Of a run, with padding, on each side: scores of all the vocabulary take most of the memory."""
_MOST_PADDED = 1.25
"""Padded over real tokens that a run may have."""
_MOST_TOGETHER = 4 * _MOST_TOKENS
"""Tokens on a side of the pairs that are sorted by length at a time: what comes meanwhile waits for
them, be it more important or overdue."""
_SHRINK = "memory.enable_memory_arena_shrinkage"

Floats = npt.NDArray[np.float32]


class ScoringFailure(DragomanError):
    """The graph could not be loaded or run, through no fault of the request."""


class TooLong(DragomanError):
    """A pair has more tokens than the graph has positions."""


@dataclass(frozen=True)
class Pair:
    """A source and a translation of it, as token ids.

    `src_ids` are with tag and end symbol, `tgt_ids` without start and end symbol. `complete` says
    whether the end symbol belongs to the translation. Of two that wait, the one of higher
    `priority` goes first; after `deadline_s`, on the clock of `time.monotonic`, nobody wants it.
    """

    src_ids: tuple[int, ...]
    tgt_ids: tuple[int, ...]
    complete: bool = True
    attention: bool = False
    """Whether it is wanted where the model looked."""
    priority: int = 0
    deadline_s: float | None = None
    heads: bool = False
    """Whether it is wanted what each head looked at."""


@dataclass(frozen=True)
class Scored:
    """What the model thinks of a pair.

    `log_probs` are those of the target's tokens, the end symbol's at the end if the pair is
    complete. `attention` [T, S] is how much each of the T tokens before the end symbol looked at
    each source id, tag and end symbol included; None if it was not wanted. So `heads`: the weights
    [L, H, S, S], [L, H, N, N] and [L, H, N, S] of encoder, decoder and cross-attention, where N is
    T, and one more of a complete pair.
    """

    log_probs: tuple[float, ...]
    attention: Floats | None = None
    heads: tuple[Floats, ...] | None = None


class ScoreGraph:
    """The graph, ready to run on the thread that asks."""

    def __init__(self, bundle: Path, manifest: Manifest) -> None:
        """Load it.

        Raises:
            UsageError: the bundle has none, or it is not that of the manifest.
        """
        self._graph = open_graph(bundle, manifest, _GRAPH, threads=1)
        self._ids = manifest.special_ids
        self._most_steps = manifest.limits.max_target_tokens
        self._options = onnxruntime.RunOptions()
        # A long pair must not hold its memory for ever.
        self._options.add_run_config_entry(_SHRINK, "cpu:0")

    def run(self, pairs: Sequence[Pair]) -> tuple[list[Floats], list[Floats]]:
        """Score pairs together.

        Returns:
            For each pair with T target ids and S source ids: log-probabilities [T + 1], the end
            symbol's at the end, and attention [L, H, T + 1, S] of the steps that say them. Of an
            incomplete one that fills all positions, T steps of both.
        """
        begin, end = self._ids.begin, self._ids.end
        steps = [self._steps(pair) for pair in pairs]
        rows = list(zip(pairs, steps, strict=True))
        inputs = {
            "input_ids": self._padded([pair.src_ids for pair in pairs]),
            "src_lengths": np.array([len(pair.src_ids) for pair in pairs]),
            "tgt_in_ids": self._padded([(begin, *pair.tgt_ids)[:number] for pair, number in rows]),
            "tgt_out_ids": self._padded([(*pair.tgt_ids, end)[:number] for pair, number in rows]),
        }
        log_probs, attention = self._graph.run(
            ["log_probs", "cross_attention"], inputs, self._options
        )
        return (
            [row[:number] for row, number in zip(log_probs, steps, strict=True)],
            [
                one[:, :, :number, : len(pair.src_ids)]
                for one, (pair, number) in zip(attention, rows, strict=True)
            ],
        )

    def _steps(self, pair: Pair) -> int:
        """One a token and one for the end symbol, if there is room or it belongs to the pair."""
        steps = len(pair.tgt_ids) + 1
        return steps if pair.complete else min(steps, self._most_steps)

    def _padded(self, rows: Sequence[Sequence[int]]) -> npt.NDArray[np.int64]:
        padded = np.full((len(rows), max(map(len, rows))), self._ids.pad, np.int64)
        for row, ids in zip(padded, rows, strict=True):
            row[: len(ids)] = ids
        return padded


class AttentionGraph:
    """The graph that tells of every head, ready to run on the thread that asks."""

    def __init__(self, bundle: Path, manifest: Manifest) -> None:
        """Load it.

        Raises:
            UsageError: the bundle has none, or it is not that of the manifest.
        """
        self._graph = open_graph(bundle, manifest, ATTENTION_GRAPH, threads=1)
        self._begin = manifest.special_ids.begin
        self._options = onnxruntime.RunOptions()
        self._options.add_run_config_entry(_SHRINK, "cpu:0")

    def run(self, pair: Pair) -> tuple[Floats, ...]:
        """Weights [L, H, S, S], [L, H, N, N] and [L, H, N, S]; see `Scored.heads`."""
        steps = len(pair.tgt_ids) + pair.complete
        inputs = {
            "input_ids": np.array([pair.src_ids]),
            "src_lengths": np.array([len(pair.src_ids)]),
            "tgt_in_ids": np.array([(self._begin, *pair.tgt_ids)[:steps]]),
        }
        return tuple(one[0] for one in self._graph.run(ATTENTION_NAMES, inputs, self._options))


def looked_at(attention: Floats, heads: AlignmentHeads, ended: bool = True) -> Floats:
    """How much each token of a translation looked at each source id.

    Args:
        attention: [L, H, T + 1, S] of the steps that say its T tokens and the end symbol.
        heads: which of it to average, and at which step.
        ended: whether it has the end symbol's step; without, it is [L, H, T, S].

    Returns:
        [T, S].
    """
    layers, places = zip(*heads.heads, strict=True)
    mean: Floats = attention[list(layers), list(places)].mean(axis=0)
    if not ended:  # nothing reads the last token: the step that says it is the nearest
        mean = np.concatenate([mean, mean[-1:]])
    return mean[1:] if heads.when_read else mean[:-1]


@dataclass(eq=False)
class _Job:
    pair: Pair
    future: Future[Scored] = field(default_factory=Future)

    @property
    def length(self) -> tuple[int, int]:
        return len(self.pair.tgt_ids) + 1, len(self.pair.src_ids)

    def is_unwanted(self, now_s: float) -> bool:
        """Whether nobody waits for it any more, or it is overdue."""
        deadline_s = self.pair.deadline_s
        return self.future.done() or (deadline_s is not None and now_s > deadline_s)


class Scorer:
    """Scores pairs in a thread of its own, those of like length together.

    The graph is loaded when it is first needed. A result does not depend on what it was scored with
    beyond the last digits of fp32.
    """

    def __init__(self, bundle: Path, manifest: Manifest, most_waiting: int = 20_000) -> None:
        """Begin without the graph.

        Args:
            bundle: folder of the bundle.
            manifest: its manifest, checked.
            most_waiting: pairs that may wait; more are refused.
        """
        self._bundle, self._manifest = bundle, manifest
        limits = manifest.limits
        self._most_ids = limits.max_source_tokens, limits.max_target_tokens
        self._most_waiting = most_waiting
        self._graph: ScoreGraph | None = None
        self._attention_graph: AttentionGraph | None = None
        self._waiting: list[tuple[int, int, _Job]] = []
        self._arrivals = itertools.count()
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def most_waiting(self) -> int:
        """Pairs that may wait."""
        return self._most_waiting

    def check_room(self, pairs: int) -> None:
        """Refuse more pairs than may wait now.

        Raises:
            Overloaded: they would be too many.
        """
        held = len(self._waiting)
        if held + pairs > self._most_waiting:
            raise Overloaded(
                f"the server is busy: {held} translations wait to be scored and {pairs} "
                f"more would exceed the limit of {self._most_waiting}: try again later"
            )

    def submit(self, pairs: Sequence[Pair]) -> list[Future[Scored]]:
        """Let pairs wait to be scored, all or none of them.

        Returns:
            A future a pair, in their order. Cancelling it gives the pair up.

        Raises:
            TooLong: the graph has not so many positions.
            Overloaded: too many are waiting.
            Closed: the scorer was closed.
        """
        for pair in pairs:
            self._check_length(pair)
        jobs = [_Job(pair) for pair in pairs]
        with self._changed:
            if self._closed:
                raise Closed("the engine has been shut down")
            self.check_room(len(jobs))
            for job in jobs:
                heapq.heappush(self._waiting, (-job.pair.priority, next(self._arrivals), job))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="dragoman-scorer", daemon=True
                )
                self._thread.start()
            self._changed.notify()
        return [job.future for job in jobs]

    def close(self) -> None:
        """Score what waits, then stop. Further submissions are refused."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _check_length(self, pair: Pair) -> None:
        sides = ("text", len(pair.src_ids)), ("translation", len(pair.tgt_ids) + pair.complete)
        for (what, tokens), most in zip(sides, self._most_ids, strict=True):
            if tokens > most:
                raise TooLong(
                    f"a {what} of {tokens} tokens cannot be scored, more than {most}: "
                    "send shorter texts"
                )

    def _work(self) -> None:
        while (jobs := self._take()) is not None:
            try:
                jobs.sort(key=lambda job: job.length)
                for group in like_lengths([job.length for job in jobs]):
                    self._score(jobs[group])
            except Exception as error:  # the thread must live on for those that wait
                _fail(jobs, error)
            del jobs  # nothing of them is kept until others come

    def _take(self) -> list[_Job] | None:
        """What is next; None if the scorer was closed and nothing waits."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if not self._waiting:
                return None
            # Those at the end of a long queue must not wait to hear that they are too late.
            now_s = time.monotonic()
            unwanted = [job for *_, job in self._waiting if job.is_unwanted(now_s)]
            if unwanted:
                self._waiting = [one for one in self._waiting if not one[-1].is_unwanted(now_s)]
                heapq.heapify(self._waiting)
            taken: list[_Job] = []
            tokens = 0
            while self._waiting and tokens < _MOST_TOGETHER:
                taken.append(heapq.heappop(self._waiting)[-1])
                tokens += max(taken[-1].length)
        _give_up(unwanted)
        return taken

    def _score(self, jobs: Sequence[_Job]) -> None:
        """Settle the futures of pairs that go through the graph together."""
        now_s = time.monotonic()
        unwanted = [job for job in jobs if job.is_unwanted(now_s)]
        _give_up(unwanted)
        wanted = [job for job in jobs if job not in unwanted]
        if not wanted:
            return
        try:
            if self._graph is None:
                self._graph = ScoreGraph(self._bundle, self._manifest)
            log_probs, attention = self._graph.run([job.pair for job in wanted])
            found = [
                self._scored(job.pair, of_tokens, of_steps)
                for job, of_tokens, of_steps in zip(wanted, log_probs, attention, strict=True)
            ]
        except Exception as error:  # whatever it was, who waits must hear of it
            if self._graph is None or len(wanted) == 1:
                _fail(wanted, error)
                return
        else:
            for job, scored in zip(wanted, found, strict=True):
                _settle(job, scored)
            return
        for job in wanted:  # the failure is that of some of them alone
            self._score([job])

    def _scored(self, pair: Pair, log_probs: Floats, attention: Floats) -> Scored:
        heads = self._manifest.alignment
        tokens = len(pair.tgt_ids) + pair.complete
        # Not a view of the whole run's memory.
        ended = len(log_probs) > len(pair.tgt_ids)
        looked = looked_at(attention, heads, ended).copy() if pair.attention and heads else None
        return Scored(tuple(log_probs[:tokens].tolist()), looked, self._heads(pair))

    def _heads(self, pair: Pair) -> tuple[Floats, ...] | None:
        if not pair.heads:
            return None
        if self._attention_graph is None:
            self._attention_graph = AttentionGraph(self._bundle, self._manifest)
        return self._attention_graph.run(pair)


def like_lengths(lengths: Sequence[tuple[int, int]]) -> list[slice]:
    """Cut pairs of lengths, sorted, into groups that waste little when each is padded by itself.

    No group has more than a bounded number of tokens on a side, with padding, unless it is of one.
    """
    groups: list[slice] = []
    start = 0
    for index in range(1, len(lengths) + 1):
        group = lengths[start : index + 1]
        padded = [len(group) * max(side) for side in zip(*group, strict=True)]
        real = [sum(side) for side in zip(*group, strict=True)]
        full = max(padded) > _MOST_TOKENS or sum(padded) > _MOST_PADDED * sum(real)
        if index == len(lengths) or full:
            groups.append(slice(start, index))
            start = index
    return groups


def _give_up(unwanted: Sequence[_Job]) -> None:
    """Answer for pairs that are cancelled or overdue."""
    for job in unwanted:
        if not job.future.done():
            _settle(job, DeadlineExceeded("the deadline passed before it was scored"))


def _fail(jobs: Sequence[_Job], error: Exception) -> None:
    """Answer for pairs that cannot be scored, if nobody has yet."""
    log.error("translations cannot be scored", exc_info=error)
    what = str(error) if isinstance(error, DragomanError) else type(error).__name__
    for job in jobs:
        if not job.future.done():
            _settle(job, ScoringFailure(f"scoring failed: {what}"))


def _settle(job: _Job, outcome: Scored | Exception) -> None:
    if not job.future.set_running_or_notify_cancel():
        return
    if isinstance(outcome, Exception):
        job.future.set_exception(outcome)
    else:
        job.future.set_result(outcome)

"""What the model thinks of given translations: a log-probability a token, and where it looked.

Knows the bundle's graph `score` and token ids; must not know text, requests or Triton. The graph is
run in fp32 whatever precision the engine decodes in.
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
from serving.engine.batch import DeadlineExceeded
from serving.engine.onnx_session import open_graph
from serving.engine.scheduler import Closed, Overloaded

log = logging.getLogger(__name__)

_GRAPH = "score"
_MOST_TOKENS = 1024
"""Of a run, with padding, on each side: scores of all the vocabulary take most of the memory."""
_MOST_PADDED = 1.25
"""Padded over real tokens that a run may have."""
_MOST_TOGETHER = 256
"""Pairs that are sorted by length at a time, so that none waits for long."""
_SHRINK = "memory.enable_memory_arena_shrinkage"

Floats = npt.NDArray[np.float32]


class ScoringFailure(DragomanError):
    """The graph could not be loaded or run, through no fault of the request."""


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


@dataclass(frozen=True)
class Scored:
    """What the model thinks of a pair.

    `log_probs` are those of the target's tokens, the end symbol's at the end if the pair is
    complete. `attention` [T, S] is how much each of the T tokens before the end symbol looked at
    each source id, tag and end symbol included; None if it was not wanted.
    """

    log_probs: tuple[float, ...]
    attention: Floats | None = None


class ScoreGraph:
    """The graph, ready to run on the thread that asks."""

    def __init__(self, bundle: Path, manifest: Manifest) -> None:
        """Load it.

        Raises:
            UsageError: the bundle has none, or it is not that of the manifest.
        """
        self._graph = open_graph(bundle, manifest, _GRAPH, threads=1)
        self._ids = manifest.special_ids
        self._options = onnxruntime.RunOptions()
        # A long pair must not hold its memory for ever.
        self._options.add_run_config_entry(_SHRINK, "cpu:0")

    def run(self, pairs: Sequence[Pair]) -> tuple[list[Floats], list[Floats]]:
        """Score pairs together.

        Returns:
            For each pair with T target ids and S source ids: log-probabilities [T + 1], the end
            symbol's at the end, and attention [L, H, T + 1, S] of the steps that say them.
        """
        begin, end = self._ids.begin, self._ids.end
        inputs = {
            "input_ids": self._padded([pair.src_ids for pair in pairs]),
            "src_lengths": np.array([len(pair.src_ids) for pair in pairs]),
            "tgt_in_ids": self._padded([(begin, *pair.tgt_ids) for pair in pairs]),
            "tgt_out_ids": self._padded([(*pair.tgt_ids, end) for pair in pairs]),
        }
        log_probs, attention = self._graph.run(
            ["log_probs", "cross_attention"], inputs, self._options
        )
        sizes = [(len(pair.tgt_ids) + 1, len(pair.src_ids)) for pair in pairs]
        return (
            [row[:steps] for row, (steps, _) in zip(log_probs, sizes, strict=True)],
            [one[:, :, :steps, :src] for one, (steps, src) in zip(attention, sizes, strict=True)],
        )

    def _padded(self, rows: Sequence[Sequence[int]]) -> npt.NDArray[np.int64]:
        padded = np.full((len(rows), max(map(len, rows))), self._ids.pad, np.int64)
        for row, ids in zip(padded, rows, strict=True):
            row[: len(ids)] = ids
        return padded


def looked_at(attention: Floats, heads: AlignmentHeads) -> Floats:
    """How much each token of a translation looked at each source id.

    Args:
        attention: [L, H, T + 1, S] of the steps that say its T tokens and the end symbol.
        heads: which of it to average, and at which step.

    Returns:
        [T, S].
    """
    layers, places = zip(*heads.heads, strict=True)
    mean: Floats = attention[list(layers), list(places)].mean(axis=0)
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
        self._most_waiting = most_waiting
        self._graph: ScoreGraph | None = None
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
            Overloaded: too many are waiting.
            Closed: the scorer was closed.
        """
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

    def _work(self) -> None:
        while (jobs := self._take()) is not None:
            jobs.sort(key=lambda job: job.length)
            for group in like_lengths([job.length for job in jobs]):
                self._score(jobs[group])
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
            number = min(len(self._waiting), _MOST_TOGETHER)
            taken = [heapq.heappop(self._waiting)[-1] for _ in range(number)]
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
        except Exception as error:  # whatever it was, who waits must hear of it
            log.exception("translations cannot be scored")
            message = f"scoring failed: {type(error).__name__}"
            if isinstance(error, DragomanError):
                message = f"scoring failed: {error}"
            for job in wanted:
                _settle(job, ScoringFailure(message))
            return
        for job, of_tokens, of_steps in zip(wanted, log_probs, attention, strict=True):
            _settle(job, self._scored(job.pair, of_tokens, of_steps))

    def _scored(self, pair: Pair, log_probs: Floats, attention: Floats) -> Scored:
        heads = self._manifest.alignment
        tokens = len(pair.tgt_ids) + pair.complete
        # Not a view of the whole run's memory.
        looked = looked_at(attention, heads).copy() if pair.attention and heads else None
        return Scored(tuple(log_probs[:tokens].tolist()), looked)


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


def _settle(job: _Job, outcome: Scored | Exception) -> None:
    if not job.future.set_running_or_notify_cancel():
        return
    if isinstance(outcome, Exception):
        job.future.set_exception(outcome)
    else:
        job.future.set_result(outcome)

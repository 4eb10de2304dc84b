"""The bundle's graphs that tell what the model thinks of given translations, ready to run.

They are run in fp32 whatever precision the engine decodes in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dragoman.kernel.manifest import AlignmentHeads, Manifest
from dragoman.kernel.tensors import ATTENTION_GRAPH, ATTENTION_NAMES
from dragoman_serving.engine.runtimes.onnx_session import open_graph

if TYPE_CHECKING:
    import onnxruntime

MOST_TOKENS = 1024
"""Of a run, with padding, on each side: scores of all the vocabulary take most of the memory."""
_MOST_PADDED = 1.25
"""Padded over real tokens that a run may have."""
_GRAPH = "score"
_SHRINK = "memory.enable_memory_arena_shrinkage"

Floats = npt.NDArray[np.float32]


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
        self._options = _run_options()

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
        self._options = _run_options()

    def run(self, pair: Pair) -> tuple[Floats, ...]:
        """Weights [L, H, S, S], [L, H, N, N] and [L, H, N, S], with N steps."""
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
        full = max(padded) > MOST_TOKENS or sum(padded) > _MOST_PADDED * sum(real)
        if index == len(lengths) or full:
            groups.append(slice(start, index))
            start = index
    return groups


def _run_options() -> onnxruntime.RunOptions:
    """A long pair must not hold its memory for ever."""
    import onnxruntime

    options = onnxruntime.RunOptions()
    options.add_run_config_entry(_SHRINK, "cpu:0")
    return options

"""The bundle's graphs that score given translations.

They run in fp32, whatever the engine's precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dragoman.kernel.manifest import AlignmentHeads, Manifest
from dragoman.kernel.tensors import ATTENTION_GRAPH, ATTENTION_NAMES
from dragoman_serving.engine.runtimes.onnx_session import open_graph
from dragoman_serving.scoring.token_pair import Floats, Scored, TokenPair, attention_of_tokens

if TYPE_CHECKING:
    import onnxruntime

_GRAPH = "score"
_SHRINK = "memory.enable_memory_arena_shrinkage"


class ScoreGraph:
    """The scoring graph, run in the calling thread."""

    def __init__(self, bundle: Path, manifest: Manifest) -> None:
        """Load the graph.

        Raises:
            UsageError: the bundle has no such graph, or it differs from the manifest.
        """
        self._graph = open_graph(bundle, manifest, _GRAPH, threads=1)
        self._ids = manifest.special_ids
        self._alignment = manifest.alignment
        self._most_steps = manifest.limits.max_target_tokens
        self._options = _run_options()

    def run(self, pairs: Sequence[TokenPair]) -> list[Scored]:
        """See `PairScoring`."""
        rows = zip(pairs, *self.run_all(pairs), strict=True)
        return [self._scored(pair, log_probs, weights) for pair, log_probs, weights in rows]

    def run_all(self, pairs: Sequence[TokenPair]) -> tuple[list[Floats], list[Floats]]:
        """Score pairs as one batch, with the attention of every head.

        Returns:
            For each pair with T target ids and S source ids: log-probabilities [T + 1], with the
            end symbol, and attention [L, H, T + 1, S] of the steps that generate them. An
            incomplete pair that fills all positions has T steps in both.
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
                weights[:, :, :number, : len(pair.src_ids)]
                for weights, (pair, number) in zip(attention, rows, strict=True)
            ],
        )

    def _scored(self, pair: TokenPair, log_probs: Floats, weights: Floats) -> Scored:
        tokens = len(pair.tgt_ids)
        attention = None
        if pair.attention and self._alignment:
            mean = mean_of_heads(weights, self._alignment)
            # A copy, so that the whole batch's memory is freed.
            attention = attention_of_tokens(mean, self._alignment, tokens).copy()
        return Scored(tuple(log_probs[: tokens + pair.complete].tolist()), attention)

    def _steps(self, pair: TokenPair) -> int:
        """One step per token, and one for the end symbol if there is space or it is required."""
        steps = len(pair.tgt_ids) + 1
        return steps if pair.complete else min(steps, self._most_steps)

    def _padded(self, rows: Sequence[Sequence[int]]) -> npt.NDArray[np.int64]:
        padded = np.full((len(rows), max(map(len, rows))), self._ids.pad, np.int64)
        for row, ids in zip(padded, rows, strict=True):
            row[: len(ids)] = ids
        return padded


class AttentionGraph:
    """The graph with the attention of every head, run in the calling thread."""

    def __init__(self, bundle: Path, manifest: Manifest) -> None:
        """Load the graph.

        Raises:
            UsageError: the bundle has no such graph, or it differs from the manifest.
        """
        self._graph = open_graph(bundle, manifest, ATTENTION_GRAPH, threads=1)
        self._begin = manifest.special_ids.begin
        self._options = _run_options()

    def run(self, pair: TokenPair) -> tuple[Floats, ...]:
        """Returns weights [L, H, S, S], [L, H, N, N] and [L, H, N, S], with N steps."""
        steps = len(pair.tgt_ids) + pair.complete
        inputs = {
            "input_ids": np.array([pair.src_ids]),
            "src_lengths": np.array([len(pair.src_ids)]),
            "tgt_in_ids": np.array([(self._begin, *pair.tgt_ids)[:steps]]),
        }
        return tuple(
            weights[0] for weights in self._graph.run(ATTENTION_NAMES, inputs, self._options)
        )


def mean_of_heads(weights: Floats, alignment: AlignmentHeads) -> Floats:
    """Returns the mean [N, S] of the alignment heads, from weights [L, H, N, S]."""
    layers, heads = zip(*alignment.heads, strict=True)
    mean: Floats = weights[list(layers), list(heads)].mean(axis=0)
    return mean


def _run_options() -> onnxruntime.RunOptions:
    """Options that release the memory after a run, so that a long pair does not keep it."""
    import onnxruntime

    options = onnxruntime.RunOptions()
    options.add_run_config_entry(_SHRINK, "cpu:0")
    return options

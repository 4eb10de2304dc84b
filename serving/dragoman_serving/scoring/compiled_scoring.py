"""Scores given translations in compiled code, all tokens of a translation at once."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from dragoman.kernel.manifest import AlignmentHeads, SpecialIds
from dragoman_serving.engine.arrays import Ids
from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.compiled.compiled_network import NativeNetwork, whole_blocks
from dragoman_serving.engine.compiled.library import SCORED_TOGETHER, Pairs, Sources
from dragoman_serving.scoring.token_pair import Floats, Scored, TokenPair, attention_of_tokens


class NativeScoring:
    """See `PairScoring`. Runs the int8 model; results are bit-identical to those of searches."""

    def __init__(
        self, network: NativeNetwork, special_ids: SpecialIds, alignment: AlignmentHeads | None
    ) -> None:
        """Use the weights of a network.

        Args:
            network: the model.
            special_ids: special ids of its vocabulary.
            alignment: the alignment heads; None: unknown.
        """
        self._library = library.load()
        self._network = network
        self._ids = special_ids
        self._alignment = alignment

    def run(self, pairs: Sequence[TokenPair]) -> list[Scored]:
        """See `PairScoring`."""
        steps = [self._steps(pair) for pair in pairs]
        lengths = np.array(steps)
        src_lengths = np.array([len(pair.src_ids) for pair in pairs])
        weights = [
            np.zeros((number, len(pair.src_ids)), np.float32)
            if pair.attention and self._alignment
            else None
            for pair, number in zip(pairs, steps, strict=True)
        ]
        log_probs = self._score(pairs, lengths, src_lengths, weights)
        all_steps = iter(log_probs.tolist())
        of_pairs = [tuple(itertools.islice(all_steps, number)) for number in steps]
        return [
            self._scored(*arguments) for arguments in zip(pairs, of_pairs, weights, strict=True)
        ]

    def _steps(self, pair: TokenPair) -> int:
        """One step per token, and one for the end symbol if there is space or it is required."""
        steps = len(pair.tgt_ids) + 1
        return steps if pair.complete else min(steps, self._network.most_steps)

    def _score(
        self,
        pairs: Sequence[TokenPair],
        lengths: Ids,
        src_lengths: Ids,
        weights: Sequence[Floats | None],
    ) -> Floats:
        """Log-probabilities [N] of all steps; attention is added to `weights`."""
        rows = [(pair, number) for pair, number in zip(pairs, lengths.tolist(), strict=True)]
        begin, end = self._ids.begin, self._ids.end
        ids = _joined((begin, *pair.tgt_ids)[:number] for pair, number in rows)
        targets = _joined((*pair.tgt_ids, end)[:number] for pair, number in rows)
        src_ids = _joined(pair.src_ids for pair in pairs)
        network, scratch = self._network, self._network.scratch
        src_room = whole_blocks(int(src_lengths.max()))
        room = whole_blocks(int(lengths.max()))
        cross = network.new_cross(len(pairs), src_room)
        past = network.new_past(len(pairs), room)
        cross_addresses = np.array([part.ctypes.data for part in cross], np.uintp)
        alignments = np.array(
            [0 if array is None else array.ctypes.data for array in weights], np.uintp
        )
        log_probs = np.empty(len(ids), np.float32)
        memory = scratch.memory(max(len(ids), len(src_ids)))
        sources = Sources(
            len(pairs),
            len(src_ids),
            src_ids.ctypes.data,
            src_lengths.ctypes.data,
            0,
            src_room,
            cross_addresses.ctypes.data,
        )
        self._library.encode(network.address, ctypes.byref(sources), memory, None)
        self._library.score(
            network.address,
            Pairs(
                len(pairs),
                len(ids),
                lengths.ctypes.data,
                ids.ctypes.data,
                targets.ctypes.data,
                src_lengths.ctypes.data,
                src_room,
                room,
                cross_addresses.ctypes.data,
                aligning=network.aligning.ctypes.data,
                alignments=alignments.ctypes.data,
                scores=scratch.scores(SCORED_TOGETHER),
                log_probs=log_probs.ctypes.data,
                ticks=scratch.ticks.ctypes.data,
                **{name: array.ctypes.data for name, array in past.items()},
            ),
            memory,
        )
        return log_probs

    def _scored(
        self, pair: TokenPair, log_probs: tuple[float, ...], weights: Floats | None
    ) -> Scored:
        tokens = len(pair.tgt_ids)
        attention = None
        if weights is not None and self._alignment:
            attention = attention_of_tokens(weights, self._alignment, tokens)
        return Scored(log_probs[: tokens + pair.complete], attention)


def _joined(rows: Iterable[Sequence[int]]) -> Ids:
    return np.fromiter(itertools.chain.from_iterable(rows), np.int64)

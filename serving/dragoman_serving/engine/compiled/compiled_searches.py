"""Searches in compiled code."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.kernel.hypothesis import Hypothesis
from dragoman_serving.engine.arrays import Copy
from dragoman_serving.engine.compiled.library import Found, Searches, load
from dragoman_serving.engine.search.plain_search import Advance, common_beginning
from dragoman_serving.engine.sentence import Sentence
from dragoman_serving.engine.session import Ranking

_ROOM = 64
"""Tokens for which there is room at first."""


class NativeSearches:
    """See `Searches`; the arrays are those of the structure of this name in `kernels.h`."""

    def __init__(self, width: int, end_id: int) -> None:
        """Begin without searches."""
        self._library = load()
        self._width = width
        self._end_id = end_id
        self._live_scores = np.array([0.0, *[-math.inf] * (width - 1)], np.float32)
        self._found = Found()
        self.structure = Searches()
        """What the compiled code works on."""
        self._arrays: dict[str, npt.NDArray[Any]] = {}
        """By their names in the structure; the attributes below are the same ones."""
        self._make_room(4, _ROOM)

    def join(self, sentences: Sequence[Sentence]) -> None:
        """See `Searches`."""
        first, last = self.structure.slots, self.structure.slots + len(sentences)
        limits = [sentence.max_tokens for sentence in sentences]
        slots, room = self._said.shape[:2]
        if last > slots or max(limits) > room:
            self._make_room(2 * last if last > slots else slots, max(room, *limits))
        guided = [sentence.options.guidance is not None for sentence in sentences]
        self._arrays["guided"][first:last] = guided
        self._limits[first:last] = limits
        self._lengths[first:last] = 0
        if self._width > 1:
            self._alphas[first:last] = [sentence.options.length_penalty for sentence in sentences]
            self._scores[first:last] = self._live_scores
            self._rows[first:last] = np.arange(self._width)
            self._finished[first:last] = 0
        self.structure.slots = last

    def advance(self, ranking: Ranking, logits: Any) -> Advance:
        """See `Searches`."""
        if self._width == 1:
            tokens = np.ascontiguousarray(ranking.likeliest(logits), np.int64)
            done = self._library.choose(self.structure, tokens.ctypes.data)
            return Advance(tokens, (), self.done[:done].tolist())
        top_scores, top_ids = ranking.best(logits, 2 * self._width)
        tokens, copied = np.zeros(len(top_ids), np.int64), ctypes.c_int64()
        done = self._library.advance(
            *(self.structure, top_scores.ctypes.data, top_ids.ctypes.data, top_ids.shape[1]),
            *(tokens.ctypes.data, ctypes.addressof(copied)),
        )
        copies = list(map(Copy._make, self._copies[: copied.value].tolist()))
        return Advance(tokens, copies, self.done[:done].tolist())

    def result(self, slot: int) -> Hypothesis:
        """See `Searches`."""
        return self._ranked(slot, 0)

    def next_best(self, slot: int, count: int) -> tuple[Hypothesis, ...]:
        """See `Searches`."""
        found = 1 if self._width == 1 else int(self._finished[slot])
        return tuple(self._ranked(slot, rank) for rank in range(1, min(1 + count, found)))

    def _ranked(self, slot: int, rank: int) -> Hypothesis:
        found = self._found
        self._library.result(self.structure, slot, rank, self._ids_address, found)
        ids = tuple(self._ids[: found.length].tolist())
        return Hypothesis(ids, found.log_prob if self._width > 1 else None, bool(found.complete))

    def certain(self, slot: int) -> tuple[int, ...]:
        """See `Searches`."""
        length, finished = int(self._lengths[slot]), int(self._finished[slot])
        if self._width == 1:
            ids = tuple(self._said[slot, :length, 0].tolist())
            return ids[:-1] if ids[-1] == self._end_id else ids
        said, parents = self._history(slot, length)
        # Back to where all that live were one.
        places = set(range(self._width))
        while len(places) > 1 and length:
            length -= 1
            places = {parents[length][place] for place in places}
        ends = zip(
            self._arrays["finished_places"][slot, :finished].tolist(),
            self._arrays["finished_lengths"][slot, :finished].tolist(),
            strict=True,
        )
        return common_beginning(
            [
                _trace(said, parents, min(places), length),
                *(_trace(said, parents, *end) for end in ends),
            ]
        )

    def leave(self, slot: int) -> None:
        """See `Searches`."""
        self._library.leave_search(self.structure, slot)

    def _history(self, slot: int, length: int) -> tuple[list[list[int]], list[list[int]]]:
        """What was said, and where each came from, step by step."""
        return self._said[slot, :length].tolist(), self._parents[slot, :length].tolist()

    def _make_room(self, slots: int, room: int) -> None:
        """Have arrays for so many slots and tokens, which keep what they hold."""
        width, ends = self._width, 2 * self._width
        by_slot: dict[str, tuple[tuple[int, ...], type]] = {
            "guided": ((slots,), np.int64),
            "limits": ((slots,), np.int64),
            "alphas": ((slots,), np.float64),
            "lengths": ((slots,), np.int64),
            "scores": ((slots, width), np.float32),
            "rows": ((slots, width), np.int64),
            "said": ((slots, room, width), np.int32),
            "parents": ((slots, room, width), np.int32),
            "finished": ((slots,), np.int64),
            "finished_log_probs": ((slots, ends), np.float32),
            "finished_places": ((slots, ends), np.int32),
            "finished_lengths": ((slots, ends), np.int32),
            "top_scores": ((slots * width, ends), np.float32),
            "top_ids": ((slots * width, ends), np.int64),
            "copies": ((slots * width, 3), np.int64),
            "done": ((slots,), np.int64),
        }
        arrays: dict[str, npt.NDArray[Any]] = {
            name: np.zeros(shape, dtype) for name, (shape, dtype) in by_slot.items()
        }
        for name, old in self._arrays.items():
            arrays[name][tuple(map(slice, old.shape))] = old
        self._arrays = arrays
        self._limits, self._alphas, self._lengths = (
            arrays[name] for name in ("limits", "alphas", "lengths")
        )
        self._scores, self._rows = arrays["scores"], arrays["rows"]
        self._said, self._parents = arrays["said"], arrays["parents"]
        self._finished = arrays["finished"]
        self._copies, self.done = arrays["copies"], arrays["done"]
        self._ids = np.zeros(room, np.int32)
        """For the tokens of a result."""
        self._ids_address = self._ids.ctypes.data
        self.structure = Searches(
            *(self.structure.slots, width, room, self._end_id),
            **{name: array.ctypes.data for name, array in arrays.items()},
        )


def _trace(
    said: list[list[int]], parents: list[list[int]], place: int, length: int
) -> tuple[int, ...]:
    """What the hypothesis at a place has said when it had said so much."""
    ids = []
    for step in range(length - 1, -1, -1):
        ids.append(said[step][place])
        place = parents[step][place]
    return tuple(reversed(ids))

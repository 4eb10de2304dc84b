"""Beam searches in compiled code."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

import numpy as np

from dragoman.hypothesis import Hypothesis
from serving.engine.cache import Copy, Floats
from serving.engine.native.library import Beams, load
from serving.engine.search import Advance, common_beginning
from serving.engine.sentence import Sentence
from serving.engine.session import Session

_ROOM = 64
"""Tokens for which there is room at first."""


class NativeBeams:
    """See `Searches`; the arrays are those of `Beams` in `kernels.h`."""

    def __init__(self, width: int, end_id: int) -> None:
        """Begin without searches."""
        self._library = load()
        self._width = width
        self._end_id = end_id
        self._slots = 0
        self._live_scores = np.array([0.0, *[-math.inf] * (width - 1)], np.float32)
        self._make_room(4, _ROOM)

    def join(self, sentences: Sequence[Sentence]) -> None:
        """See `Searches`."""
        first, last = self._slots, self._slots + len(sentences)
        limits = [sentence.max_tokens for sentence in sentences]
        slots, room = self._said.shape[:2]
        if last > slots or max(limits) > room:
            self._make_room(2 * last if last > slots else slots, max(room, *limits))
        self._limits[first:last] = limits
        self._alphas[first:last] = [sentence.options.length_penalty for sentence in sentences]
        self._lengths[first:last] = 0
        self._scores[first:last] = self._live_scores
        self._rows[first:last] = np.arange(self._width)
        self._finished[first:last] = 0
        self._slots = self._beams.slots = last

    def advance(self, session: Session, logits: Floats) -> Advance:
        """See `Searches`."""
        top_scores, top_ids = session.best(logits, 2 * self._width)
        rows = self._slots * self._width
        tokens = np.zeros(rows, np.int64)
        done, copies = np.empty(self._slots, np.uint8), np.empty((rows, 3), np.int64)
        copied = self._library.advance(
            self._reference,
            *(top_scores.ctypes.data, top_ids.ctypes.data, top_ids.shape[1]),
            *(tokens.ctypes.data, done.ctypes.data, copies.ctypes.data),
        )
        made = list(map(Copy._make, copies[:copied].tolist()))
        return Advance(tokens, made, np.flatnonzero(done).tolist())

    def result(self, slot: int) -> Hypothesis:
        """See `Searches`."""
        best = int(self._finished_scores[slot, : self._finished[slot]].argmax())
        length = int(self._finished_lengths[slot, best])
        return Hypothesis(
            self._trace(slot, int(self._finished_places[slot, best]), length),
            float(self._finished_scores[slot, best]),
            complete=length < self._limits[slot],
        )

    def certain(self, slot: int) -> tuple[int, ...]:
        """See `Searches`."""
        finished = int(self._finished[slot])
        places = self._finished_places[slot, :finished].tolist()
        lengths = self._finished_lengths[slot, :finished].tolist()
        length = int(self._lengths[slot])
        return common_beginning(
            [
                *(self._trace(slot, place, length) for place in range(self._width)),
                *(self._trace(slot, *end) for end in zip(places, lengths, strict=True)),
            ]
        )

    def leave(self, slot: int) -> None:
        """See `Searches`."""
        last = self._slots - 1
        length = self._lengths[last]
        if slot != last:
            for array in self._by_slot:
                array[slot] = array[last]
            for history in (self._said, self._parents):
                history[slot, :length] = history[last, :length]
        self._slots = self._beams.slots = last

    def _trace(self, slot: int, place: int, length: int) -> tuple[int, ...]:
        """What the hypothesis at a place has said when it had said so much."""
        said = self._said[slot, :length].tolist()
        parents = self._parents[slot, :length].tolist()
        ids = []
        for tokens, places in zip(reversed(said), reversed(parents), strict=True):
            ids.append(tokens[place])
            place = places[place]
        return tuple(reversed(ids))

    def _make_room(self, slots: int, room: int) -> None:
        width, ends = self._width, 2 * self._width
        before = getattr(self, "_by_slot", ()), getattr(self, "_histories", ())
        self._limits, self._lengths, self._finished = np.zeros((3, slots), np.int64)
        self._alphas = np.zeros(slots)
        self._scores = np.zeros((slots, width), np.float32)
        self._rows = np.zeros((slots, width), np.int64)
        self._finished_scores = np.zeros((slots, ends))
        self._finished_places, self._finished_lengths = np.zeros((2, slots, ends), np.int32)
        self._said, self._parents = self._histories = np.zeros((2, slots, room, width), np.int32)
        self._by_slot = (
            *(self._limits, self._lengths, self._finished, self._alphas, self._scores),
            *(self._rows, self._finished_scores, self._finished_places, self._finished_lengths),
        )
        for old, new in zip(before[0], self._by_slot, strict=False):
            new[: self._slots] = old[: self._slots]
        for old, new in zip(before[1], self._histories, strict=False):
            new[: self._slots, : old.shape[1]] = old[: self._slots]
        self._beams = Beams(
            *(self._slots, width, room, self._end_id),
            limits=self._limits.ctypes.data,
            alphas=self._alphas.ctypes.data,
            lengths=self._lengths.ctypes.data,
            scores=self._scores.ctypes.data,
            rows=self._rows.ctypes.data,
            said=self._said.ctypes.data,
            parents=self._parents.ctypes.data,
            finished=self._finished.ctypes.data,
            finished_scores=self._finished_scores.ctypes.data,
            finished_places=self._finished_places.ctypes.data,
            finished_lengths=self._finished_lengths.ctypes.data,
        )
        self._reference = ctypes.byref(self._beams)

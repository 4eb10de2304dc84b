"""Memory that the compiled code computes in."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dragoman_serving.engine.arrays import Floats, Ids
from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.compiled.library import PANEL
from dragoman_serving.engine.compiled.weights import NativeWeights


def scores_size(vocab_size: int) -> int:
    """Numbers of a row's scores, with the largest of each panel behind them."""
    return -(-vocab_size // PANEL) * (PANEL + 1)


class Scratch:
    """One thread's, for whatever it computes next."""

    def __init__(self, weights: NativeWeights) -> None:
        """Begin without memory."""
        self._scratch_bytes = library.load().scratch_bytes
        self._weights = weights
        self._rows = 0
        self._memory: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self._address = 0
        self._scores: Floats = np.empty((0, scores_size(weights.sizes.vocab_size)), np.float32)
        self._scores_address = 0
        self.ticks: Ids = np.zeros(len(library.SECTIONS), np.int64)
        """Of the processor's clock, that steps have spent on each of `SECTIONS` so far."""

    def memory(self, rows: int) -> int:
        """Where there is room to compute so many rows."""
        if rows > self._rows:
            needed = self._scratch_bytes(self._weights.address, rows)
            self._memory = np.empty(needed, np.uint8)
            self._address, self._rows = self._memory.ctypes.data, rows
        return self._address

    def scores(self, rows: int) -> int:
        """Where there is room for a step's scores.

        Behind each row's scores lie the largest of each panel, by which the best are found.
        """
        if rows > len(self._scores):
            self._scores = np.empty((rows, self._scores.shape[1]), np.float32)
            self._scores_address = self._scores.ctypes.data
        return self._scores_address

    def last_scores(self, rows: int) -> Floats:
        """A step's scores [rows, V], until the next one."""
        return self._scores[:rows, : self._weights.sizes.vocab_size]

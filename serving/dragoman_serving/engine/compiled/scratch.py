"""Scratch memory of the compiled code."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dragoman_serving.engine.arrays import Floats, Ids
from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.compiled.library import PANEL
from dragoman_serving.engine.compiled.weights import NativeWeights


def scores_size(vocab_size: int) -> int:
    """Returns the length of a row of scores, followed by the largest score of each panel."""
    return -(-vocab_size // PANEL) * (PANEL + 1)


class Scratch:
    """Scratch memory of one thread."""

    def __init__(self, weights: NativeWeights) -> None:
        """Start without memory."""
        self._scratch_bytes = library.load().scratch_bytes
        self._weights = weights
        self._rows = 0
        self._memory: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self._address = 0
        self._scores: Floats = np.empty((0, scores_size(weights.sizes.vocab_size)), np.float32)
        self._scores_address = 0
        self.ticks: Ids = np.zeros(len(library.SECTIONS), np.int64)
        """Total clock ticks of steps in each of `SECTIONS`."""

    def memory(self, rows: int) -> int:
        """Returns the address of memory for a number of rows."""
        if rows > self._rows:
            needed = self._scratch_bytes(self._weights.address, rows)
            self._memory = np.empty(needed, np.uint8)
            self._address, self._rows = self._memory.ctypes.data, rows
        return self._address

    def scores(self, rows: int) -> int:
        """Returns the address of memory for a step's scores.

        Each row's scores are followed by the largest score of each panel, for top-k.
        """
        if rows > len(self._scores):
            self._scores = np.empty((rows, self._scores.shape[1]), np.float32)
            self._scores_address = self._scores.ctypes.data
        return self._scores_address

    def last_scores(self, rows: int) -> Floats:
        """Returns the last step's scores [rows, V], valid until the next step."""
        return self._scores[:rows, : self._weights.sizes.vocab_size]

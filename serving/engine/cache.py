"""The keys and values of the rows in a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]

FIRST_CAPACITY = 16
"""Attention's cost follows the length of the cache, so it begins short and doubles when full."""


@dataclass
class Cache:
    """What the decoder keeps between steps.

    `cross` are keys and values of the source, [R, H, S, D] a layer and kind; `past` those of the
    tokens so far, [R, H, C, D]; `src_lengths` [R] says how much of S each row has.
    """

    cross: list[Floats]
    src_lengths: Ids
    past: list[Floats]

    @classmethod
    def begin(cls, cross: list[Floats], src_lengths: Ids) -> Cache:
        """A cache with one row a sentence and no tokens yet."""
        rows, heads, _, head_size = cross[0].shape
        shape = (rows, heads, FIRST_CAPACITY, head_size)
        return cls(cross, src_lengths, [np.zeros(shape, np.float32) for _ in cross])

    @classmethod
    def joined(cls, parts: Sequence[Cache]) -> Cache:
        """The rows of several caches without tokens, one after the other."""
        if len(parts) == 1:
            return parts[0]
        src_lengths = np.concatenate([part.src_lengths for part in parts])
        width = max(part.cross[0].shape[2] for part in parts)
        cross = []
        for index, (_, heads, _, head_size) in enumerate(p.shape for p in parts[0].cross):
            whole = np.zeros((len(src_lengths), heads, width, head_size), np.float32)
            first_row = 0
            for part in parts:
                piece = part.cross[index]
                whole[first_row : first_row + part.rows, :, : piece.shape[2]] = piece
                first_row += part.rows
            cross.append(whole)
        return cls.begin(cross, src_lengths)

    @property
    def rows(self) -> int:
        """Number R of rows."""
        return len(self.src_lengths)

    @property
    def capacity(self) -> int:
        """Number C of tokens that fit."""
        return int(self.past[0].shape[2])

    def grow(self) -> None:
        """Double the capacity."""
        self.past = [np.concatenate((part, np.zeros_like(part)), axis=2) for part in self.past]

    def select_sources(self, rows: Ids) -> None:
        """Make the source's part that of these rows, in this order."""
        self.cross = [part[rows] for part in self.cross]
        self.src_lengths = self.src_lengths[rows]

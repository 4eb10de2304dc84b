"""The keys and values of the sentences that step together, in memory that a runtime can bind.

A sentence has a slot, and in it as many rows as its beam is wide. Slots are the first ones of each
array, without gaps, so that a step's tensors are plain prefixes of the memory: a sentence joins at
the end, and when one leaves, the last one takes its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dragoman_serving.engine.arrays import Copy, Ids, KeysValues

CAPACITIES = (16, 32, 48, 64, 96, 128, 192, 256, 320, 384, 512)
"""Tokens a row may have room for, where attention's cost follows the room, full or not: it begins
small and grows as the tokens come."""
MOST_BINDINGS = 500
"""Layouts of a cache that a session keeps ready; each takes some kilobytes."""


@dataclass(frozen=True)
class CacheShape:
    """How a session wants its keys and values.

    `parts` is two for each decoder layer; `src_tokens` and `tgt_tokens` are the most that a source
    and its translation have; `capacities` are the tokens that a row, or a source, may have room
    for, up to those: beyond the largest, its multiples.
    """

    parts: int
    heads: int
    head_size: int
    src_tokens: int
    tgt_tokens: int
    dtype: type[np.number[Any]] = np.float32
    capacities: tuple[int, ...] = CAPACITIES

    def bytes(self, tokens: int) -> int:
        """Bytes of so many tokens."""
        itemsize = np.dtype(self.dtype).itemsize
        return itemsize * self.parts * self.heads * self.head_size * tokens

    def most_bytes(self, width: int, slots: int) -> int:
        """Bytes that a cache takes at most, while one of its two memories grows too."""
        cross, past = (
            self.bytes(tokens)
            for tokens in (slots * self.src_tokens, slots * width * self.tgt_tokens)
        )
        return cross + past + max(cross, past) // 2


class _Memory:
    """Keys and values [parts, rows, H, tokens, D], whose number of tokens may change in place.

    New memory is dear, because the system hands it out page by page as it is first written; so it
    is kept, and laid out anew, until more is needed. It doubles while it is less than half of
    `most` (rows of so many tokens), and then grows to all of that: so it is never more, and old and
    new together are at most half as much again. A session that multiplies masked places by zero
    needs numbers there: so it begins as zeros, and such a session encodes padding too.
    """

    def __init__(self, shape: CacheShape, tokens: int, most: tuple[int, int]) -> None:
        self._shape = shape
        self._flat = np.zeros((shape.parts, 0), shape.dtype)
        self._most = most[0] * self._row_size(most[1])
        self.tokens = tokens
        self.generation = 0
        """Goes up with each new memory."""

    @property
    def nbytes(self) -> int:
        return self._flat.nbytes

    @property
    def room(self) -> int:
        """Rows that fit."""
        return self._flat.shape[1] // self._row_size(self.tokens)

    def rows(self, rows: int) -> KeysValues:
        """The first rows of all parts [parts, rows, H, tokens, D]."""
        shape = self._shape
        first = self._flat[:, : rows * self._row_size(self.tokens)]
        return first.reshape(shape.parts, rows, shape.heads, self.tokens, shape.head_size)

    def lay_out(self, used: int, rows: int, tokens: int) -> None:
        """Have room for `rows` of so many tokens, of which the first `used` keep what they hold."""
        if tokens == self.tokens and rows <= self.room:
            return
        kept = min(tokens, self.tokens)
        held = self.rows(used)[..., :kept, :]
        self.tokens = tokens
        if rows > self.room:
            needed = rows * self._row_size(tokens)
            size = max(needed, 2 * self._flat.shape[1])
            if 2 * size > self._most:
                size = max(needed, self._most)
            self._flat = np.zeros((self._shape.parts, size), self._shape.dtype)
            self.generation += 1
            self.rows(used)[..., :kept, :] = held
            return
        for before, after in zip(held, self.rows(used), strict=True):
            after[..., :kept, :] = before.copy()  # they overlap; a part at a time takes little

    def _row_size(self, tokens: int) -> int:
        return self._shape.heads * tokens * self._shape.head_size


class Cache:
    """Slots of one beam width.

    `cross` [parts, slots, H, S, D] and `src_lengths` [slots] are of the source, which a sentence's
    rows share; `past` [parts, rows, H, C, D] of the tokens so far, a row for each hypothesis.
    """

    def __init__(self, shape: CacheShape, width: int, most_slots: int) -> None:
        """Begin without slots.

        Args:
            shape: of the model.
            width: rows a slot.
            most_slots: how many there may be.
        """
        self.width = width
        self.slots = 0
        self.bindings: dict[tuple[int, ...], object] = {}
        """What a session made of the memory, by `layout`."""
        self._shape = shape
        least, most_rows = shape.capacities[0], most_slots * width
        self._cross = _Memory(shape, min(least, shape.src_tokens), (most_slots, shape.src_tokens))
        self._past = _Memory(shape, min(least, shape.tgt_tokens), (most_rows, shape.tgt_tokens))
        self._src_lengths = np.zeros(0, np.int64)

    @property
    def rows(self) -> int:
        """Number R of rows."""
        return self.slots * self.width

    @property
    def capacity(self) -> int:
        """Number C of tokens that fit a row."""
        return self._past.tokens

    @property
    def src_capacity(self) -> int:
        """Number S of tokens that fit a source."""
        return self._cross.tokens

    @property
    def room(self) -> int:
        """Slots for which there are `src_lengths` in the present memory."""
        return len(self._src_lengths)

    @property
    def memory(self) -> tuple[int, ...]:
        """Tells apart every place that the arrays below can have."""
        return self._cross.generation, self._past.generation, self.room

    @property
    def layout(self) -> tuple[int, ...]:
        """Tells apart every shape and place that the arrays below can have."""
        return (
            *(self.slots, self._cross.tokens, self._past.tokens),
            *self.memory,
        )

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._cross.nbytes + self._past.nbytes

    @property
    def src_lengths(self) -> Ids:
        """[B], tokens of each source."""
        return self._src_lengths[: self.slots]

    @property
    def cross(self) -> KeysValues:
        """Keys and values [parts, B, H, S, D] of the source, by layer and kind."""
        return self._cross.rows(self.slots)

    @property
    def past(self) -> KeysValues:
        """Keys and values [parts, R, H, C, D] of the tokens so far, by layer and kind."""
        return self._past.rows(self.rows)

    def join(self, cross: Sequence[KeysValues], src_lengths: Ids) -> None:
        """Add a slot for each of some encoded sentences, without tokens yet.

        Args:
            cross: [N, H, S, D] by layer and kind.
            src_lengths: [N].
        """
        length = cross[0].shape[2]
        first = self.open(src_lengths, length)
        for whole, part in zip(self.cross, cross, strict=True):
            whole[first:, :, :length] = part

    def open(self, src_lengths: Ids, length: int = 0) -> int:
        """Add a slot for each of some sentences, without keys and values yet.

        Args:
            src_lengths: [N].
            length: of the sources with their padding, if they have any.

        Returns:
            The first of the slots.
        """
        first, last = self.slots, self.slots + len(src_lengths)
        longest = max(length, int(src_lengths.max()), int(self.src_lengths.max(initial=0)))
        step = self._shape.capacities[0]
        wanted = max(longest, min(-(-longest // step) * step, self._shape.src_tokens))
        if first and wanted < self._cross.tokens < 2 * wanted:
            wanted = self._cross.tokens  # not worth laying it out anew
        before = self._cross.generation, self._past.generation
        self._cross.lay_out(first, last, wanted)
        self._past.lay_out(self.rows, last * self.width, self.capacity)
        if last > len(self._src_lengths):
            more = np.zeros(max(last, 2 * len(self._src_lengths)), np.int64)
            more[:first] = self._src_lengths[:first]
            self._src_lengths = more
            self.bindings.clear()
        if before != (self._cross.generation, self._past.generation):
            self.bindings.clear()
        self.slots = last
        self._src_lengths[first:last] = src_lengths
        return first

    def leave(self, slot: int, tokens: int) -> None:
        """Give up a slot; the last one, with so many tokens a row, takes its place."""
        last = self.slots - 1
        if slot != last:
            cross, past = self.cross, self.past
            src_tokens = self._src_lengths[slot] = self._src_lengths[last]
            cross[:, slot, :, :src_tokens] = cross[:, last, :, :src_tokens]
            rows, last_rows = (
                slice(of_slot * self.width, (of_slot + 1) * self.width) for of_slot in (slot, last)
            )
            past[:, rows, :, :tokens] = past[:, last_rows, :, :tokens]
        self.slots = last

    def copy_rows(self, copies: Sequence[Copy]) -> None:
        """Let rows go on from other ones; no row may be both."""
        past = self.past
        for source, target, tokens in copies:
            past[:, target, :, :tokens] = past[:, source, :, :tokens]

    def fit(self, tokens: int) -> bool:
        """Have room for so many tokens in each row, and not much more; true if that was changed."""
        if self.capacity // 2 < tokens <= self.capacity:
            return False  # not worth laying it out anew
        capacities = self._shape.capacities
        beyond = -(-tokens // capacities[-1]) * capacities[-1]
        wanted = next((capacity for capacity in capacities if capacity >= tokens), beyond)
        wanted = max(tokens, min(wanted, self._shape.tgt_tokens))
        if wanted == self.capacity:
            return False
        before = self._past.generation
        self._past.lay_out(self.rows, self.rows, wanted)
        if self._past.generation != before:
            self.bindings.clear()
        return True

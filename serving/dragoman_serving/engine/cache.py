"""The KV cache of the sentences in a batch, in memory that a runtime can bind.

Each sentence has a slot, with one row per hypothesis of its beam. The used slots are the first ones
of each array, without gaps, so that a step's tensors are prefixes of the memory. A sentence joins
at the end; when one leaves, the last slot is moved to its position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dragoman_serving.engine.arrays import Copy, Ids, KeysValues

CAPACITIES = (16, 32, 48, 64, 96, 128, 192, 256, 320, 384, 512)
"""Capacities of a row in tokens, for runtimes whose attention cost depends on the capacity. It
starts small and grows with the tokens."""
MOST_BINDINGS = 500
"""Cached bindings of a session, one for each layout; each takes some kilobytes."""


@dataclass(frozen=True)
class CacheShape:
    """The shape of a session's keys and values, or of its sources' and the states of its rows.

    `parts` is two for each decoder layer. `src_tokens` and `tgt_tokens` are the maximum tokens of a
    source and its translation. `capacities` are the possible capacities of a row, or a source, in
    tokens, up to those maximums; beyond the largest one, its multiples are used.

    If `state_size` E is set, the decoder is recurrent: a row has one vector [E] in fp32 for each
    layer, instead of keys and values.
    """

    parts: int
    heads: int
    head_size: int
    src_tokens: int
    tgt_tokens: int
    dtype: type[np.number[Any]] = np.float32
    capacities: tuple[int, ...] = CAPACITIES
    state_size: int | None = None

    @property
    def of_rows(self) -> CacheShape:
        """The shape of what the rows have; a recurrent state is like a single token."""
        if self.state_size is None:
            return self
        return CacheShape(self.parts // 2, 1, self.state_size, self.src_tokens, tgt_tokens=1)

    def bytes(self, tokens: int) -> int:
        """Returns the bytes of keys and values for a number of tokens."""
        itemsize = np.dtype(self.dtype).itemsize
        return itemsize * self.parts * self.heads * self.head_size * tokens

    def most_bytes(self, width: int, slots: int) -> int:
        """Returns the maximum bytes of a cache, including the growth of one of its memories."""
        cross = self.bytes(slots * self.src_tokens)
        past = self.of_rows.bytes(slots * width * self.of_rows.tgt_tokens)
        return cross + past + max(cross, past) // 2


class _Memory:
    """Keys and values [parts, rows, H, tokens, D]; the number of tokens can change in place.

    New memory is expensive, because the system provides it page by page at the first write. So the
    memory is kept and only laid out again, until more is needed. It doubles while it is less than
    half of `most` (rows and tokens), and then grows to `most`. So it never exceeds `most`, and old
    and new memory together take at most 1.5 times as much. Memory starts as zeros, because some
    sessions multiply masked positions by zero and need finite numbers there; such a session also
    encodes padding.
    """

    def __init__(self, shape: CacheShape, tokens: int, most: tuple[int, int]) -> None:
        self._shape = shape
        self._flat = np.zeros((shape.parts, 0), shape.dtype)
        self._most = most[0] * self._row_size(most[1])
        self.tokens = tokens
        self.generation = 0
        """Incremented with each new memory."""

    @property
    def nbytes(self) -> int:
        return self._flat.nbytes

    @property
    def room(self) -> int:
        """Number of rows that fit."""
        return self._flat.shape[1] // self._row_size(self.tokens)

    def rows(self, rows: int) -> KeysValues:
        """Returns the first rows of all parts [parts, rows, H, tokens, D]."""
        shape = self._shape
        first = self._flat[:, : rows * self._row_size(self.tokens)]
        return first.reshape(shape.parts, rows, shape.heads, self.tokens, shape.head_size)

    def lay_out(self, used: int, rows: int, tokens: int) -> None:
        """Change the layout to `rows` of `tokens`; the first `used` rows keep their content."""
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
            after[..., :kept, :] = before.copy()  # they overlap; one part at a time needs little

    def _row_size(self, tokens: int) -> int:
        return self._shape.heads * tokens * self._shape.head_size


class Cache:
    """The slots of one beam width.

    `cross` [parts, slots, H, S, D] and `src_lengths` [slots] are for the source, which the rows of
    a sentence share. `past` [parts, rows, H, C, D] is for the tokens so far, one row for each
    hypothesis. If the decoder is recurrent, `past` [layers, rows, E] are the rows' states; at
    position 0 a state is not read.
    """

    def __init__(self, shape: CacheShape, width: int, most_slots: int) -> None:
        """Start without slots.

        Args:
            shape: cache shape of the model.
            width: rows per slot.
            most_slots: maximum number of slots.
        """
        self.width = width
        self.slots = 0
        self.bindings: dict[tuple[int, ...], object] = {}
        """A session's bindings of the memory, by `layout`."""
        self._shape = shape
        least, most_rows = shape.capacities[0], most_slots * width
        self._cross = _Memory(shape, min(least, shape.src_tokens), (most_slots, shape.src_tokens))
        of_rows = shape.of_rows
        self._least_tokens = min(least, of_rows.tgt_tokens)
        self._past = _Memory(of_rows, self._least_tokens, (most_rows, of_rows.tgt_tokens))
        self._most_tokens = shape.tgt_tokens
        """Capacity of recurrent rows, which does not depend on their memory."""
        self._src_lengths = np.zeros(0, np.int64)

    @property
    def rows(self) -> int:
        """Number R of rows."""
        return self.slots * self.width

    @property
    def capacity(self) -> int:
        """Capacity C of a row, in tokens."""
        return self._past.tokens if self._shape.state_size is None else self._most_tokens

    @property
    def src_capacity(self) -> int:
        """Capacity S of a source, in tokens."""
        return self._cross.tokens

    @property
    def room(self) -> int:
        """Number of slots in the memory of `src_lengths`."""
        return len(self._src_lengths)

    @property
    def memory(self) -> tuple[int, ...]:
        """A key of the addresses of the arrays below."""
        return self._cross.generation, self._past.generation, self.room

    @property
    def layout(self) -> tuple[int, ...]:
        """A key of the shapes and addresses of the arrays below."""
        return (
            *(self.slots, self._cross.tokens, self._past.tokens),
            *self.memory,
        )

    @property
    def nbytes(self) -> int:
        """Allocated bytes."""
        return self._cross.nbytes + self._past.nbytes

    @property
    def src_lengths(self) -> Ids:
        """[B], number of tokens of each source."""
        return self._src_lengths[: self.slots]

    @property
    def cross(self) -> KeysValues:
        """Keys and values [parts, B, H, S, D] of the source, by layer and kind."""
        return self._cross.rows(self.slots)

    @property
    def past(self) -> KeysValues:
        """Keys and values [parts, R, H, C, D] of the tokens so far, by layer and kind; or states.

        See `Cache`.
        """
        past = self._past.rows(self.rows)
        return past if self._shape.state_size is None else past[:, :, 0, 0]

    def join(self, cross: Sequence[KeysValues], src_lengths: Ids) -> None:
        """Add a slot for each encoded sentence, without target tokens yet.

        Args:
            cross: [N, H, S, D] by layer and kind.
            src_lengths: [N].
        """
        length = cross[0].shape[2]
        first = self.open(src_lengths, length)
        for whole, part in zip(self.cross, cross, strict=True):
            whole[first:, :, :length] = part

    def open(self, src_lengths: Ids, length: int = 0) -> int:
        """Add a slot for each sentence, without keys and values yet.

        Args:
            src_lengths: [N].
            length: padded length of the sources, if they are padded.

        Returns:
            The index of the first new slot.
        """
        first, last = self.slots, self.slots + len(src_lengths)
        longest = max(length, int(src_lengths.max()), int(self.src_lengths.max(initial=0)))
        step = self._shape.capacities[0]
        capacity = max(longest, min(-(-longest // step) * step, self._shape.src_tokens))
        if first and capacity < self._cross.tokens < 2 * capacity:
            capacity = self._cross.tokens  # not worth a new layout
        before = self._cross.generation, self._past.generation
        self._cross.lay_out(first, last, capacity)
        self._past.lay_out(self.rows, last * self.width, self._past.tokens)
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
        """Free a slot; the last slot, with `tokens` tokens per row, is moved there."""
        last = self.slots - 1
        if slot != last:
            cross, past = self.cross, self._past.rows(self.rows)
            src_tokens = self._src_lengths[slot] = self._src_lengths[last]
            cross[:, slot, :, :src_tokens] = cross[:, last, :, :src_tokens]
            rows, last_rows = (
                slice(of_slot * self.width, (of_slot + 1) * self.width) for of_slot in (slot, last)
            )
            past[:, rows, :, :tokens] = past[:, last_rows, :, :tokens]
        self.slots = last

    def copy_rows(self, copies: Sequence[Copy]) -> None:
        """Copy rows to others; no row may be both source and target."""
        past = self._past.rows(self.rows)
        for source, target, tokens in copies:
            past[:, target, :, :tokens] = past[:, source, :, :tokens]

    def fit(self, tokens: int) -> bool:
        """Adapt the capacity of the rows to a number of tokens; returns whether it was changed."""
        if self._shape.state_size is not None:
            was_enough = tokens <= self._most_tokens
            self._most_tokens = max(tokens, self._most_tokens)
            return not was_enough
        capacity, least = self._past.tokens, self._least_tokens
        if tokens <= capacity and (capacity // 2 < tokens or capacity == least):
            return False  # not worth a new layout
        capacities = self._shape.capacities
        beyond = -(-tokens // capacities[-1]) * capacities[-1]
        chosen = next((capacity for capacity in capacities if capacity >= tokens), beyond)
        chosen = max(tokens, min(chosen, self._shape.tgt_tokens))
        if chosen == self.capacity:
            return False
        before = self._past.generation
        self._past.lay_out(self.rows, self.rows, chosen)
        if self._past.generation != before:
            self.bindings.clear()
        return True

"""Keys and values in a device's memory, [parts, rows, H, T, D], with reordering of rows.

Moving rows one by one would take one call each. So all changes between two steps are collected in
one list of rows, and done by one run of the bundle's `reorder` graph into other memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dragoman_serving.engine.arrays import Ids
from dragoman_serving.engine.runtimes.device.device_memory import (
    ITEM_BYTES,
    Block,
    DeviceTensor,
    Lines,
    Memory,
)

Reorder = Callable[[Sequence[DeviceTensor], Ids, Sequence[DeviceTensor]], None]
"""Fills tensors with rows of others, in the order of a list of indices."""


class DeviceCache:
    """Rows of keys and values, without gaps; with beam search, a slot has several rows."""

    def __init__(
        self,
        memory: Memory,
        reorder: Reorder,
        parts: int,
        shape: tuple[int, int],
        dtype: str,
        capacities: Sequence[int],
        most_slots: int,
        width: int = 1,
        padded: Callable[[int], int] = lambda slots: slots,
    ) -> None:
        """Start without rows.

        Args:
            memory: memory of the device.
            reorder: fills tensors with rows of others.
            parts: two for each decoder layer.
            shape: H and D.
            dtype: element type, by its name in manifests.
            capacities: possible capacities of a row in tokens, in ascending order.
            most_slots: maximum number of slots.
            width: rows per slot.
            padded: returns the padded number of slots for a number of slots.
        """
        self._memory = memory
        self._reorder = reorder
        self._parts = parts
        self._heads, self._head_size = shape
        self._dtype = dtype
        self._capacities = capacities
        self._width = width
        self._padded = padded
        self._most_rows = padded(most_slots) * width
        self._tokens = capacities[0]
        self._block: Block = memory.allocate(0)
        self._spare: Block = self._block
        """Target memory for reordering."""
        self._room = 0
        self._order: list[int] = []
        """Index in memory of each row; equal to the row's own index after `settle`."""
        self._ordered = True

    @property
    def rows(self) -> int:
        """Number of rows in use."""
        return len(self._order)

    @property
    def padded_rows(self) -> int:
        """Number of rows of `tensors`."""
        return self._room_for(self.rows)

    @property
    def capacity(self) -> int:
        """Capacity of a row, in tokens."""
        return self._tokens

    @property
    def nbytes(self) -> int:
        """Allocated bytes."""
        return self._block.nbytes + self._spare.nbytes

    @property
    def most_bytes(self) -> int:
        """Maximum of `nbytes`."""
        return 2 * self._parts * self._most_rows * self._row_bytes(self._capacities[-1])

    def join(self, slots: int, tokens: int) -> None:
        """Add slots at the end, with space for `tokens` tokens; the content is zeros or old."""
        self.settle()
        rows = len(self._order) + slots * self._width
        capacity = max(self._capacity_for(tokens), self._tokens if self._order else 0)
        self._lay_out(self._room_for(rows), capacity)
        self._order = list(range(rows))

    def fit(self, tokens: int) -> None:
        """Make space for `tokens` tokens in each row."""
        if tokens > self._tokens:
            self.settle()
            self._lay_out(self.padded_rows, self._capacity_for(tokens))

    def copy_row(self, source: int, target: int) -> None:
        """Copy a row to another one; the source must not be a target itself."""
        self._order[target] = self._order[source]
        self._ordered = False

    def leave(self, slot: int) -> None:
        """Free a slot; the last slot is moved there."""
        begin, last = slot * self._width, self.rows - self._width
        if begin != last:
            self._order[begin : begin + self._width] = self._order[last:]
            self._ordered = False
        del self._order[last:]

    def settle(self) -> None:
        """Apply the collected changes, so that the rows are in order in memory."""
        if not self._ordered and self._order:
            source, room, rows = self._block, self._room, self.padded_rows
            self._use_spare(rows, self._tokens)
            # Not more rows than before, because the graph may be built for a maximum.
            before = self._room_for(max(self._order) + 1)
            order = np.zeros(rows, np.int64)
            order[: self.rows] = self._order
            self._reorder(
                self._tensors(source, room, 0, before),
                order,
                self._tensors(self._block, self._room, 0, rows),
            )
            self._order = list(range(self.rows))
        self._ordered = True

    def tensors(self, first: int = 0, last: int | None = None) -> list[DeviceTensor]:
        """Returns rows `first` to `last` [rows, H, T, D], by part; call `settle` before.

        By default, they include padding rows.
        """
        end = self.padded_rows if last is None else last
        return self._tensors(self._block, self._room, first, end)

    def _room_for(self, rows: int) -> int:
        """The padded number of rows, in whole slots, for a number of used rows."""
        return self._padded(-(-rows // self._width)) * self._width

    def _tensors(self, block: Block, room: int, first: int, last: int) -> list[DeviceTensor]:
        row = self._row_bytes(self._tokens)
        shape = (last - first, self._heads, self._tokens, self._head_size)
        return [
            DeviceTensor(block.address + (part * room + first) * row, shape, self._dtype)
            for part in range(self._parts)
        ]

    def _lay_out(self, rows: int, tokens: int) -> None:
        """Make space for `rows` of `tokens`; rows in use keep their content."""
        if rows <= self._room and tokens == self._tokens:
            return
        if not self.rows and rows <= self._rows_in(self._block, tokens):
            self._room, self._tokens = self._rows_in(self._block, tokens), tokens
            return
        source, room = self._block, self._room
        before, after = self._line_bytes(self._tokens), self._line_bytes(tokens)
        if rows > room:  # doubled, so that the memory grows rarely
            rows = max(rows, min(2 * room, self._most_rows))
        self._use_spare(rows, tokens)
        for part in range(self._parts):
            self._memory.copy(
                Lines(source.address + part * room * self._heads * before, before),
                Lines(self._block.address + part * self._room * self._heads * after, after),
                self.rows * self._heads,
                min(before, after),
            )

    def _use_spare(self, rows: int, tokens: int) -> None:
        """Swap the memory with the spare memory, which gets space for `rows` of `tokens`."""
        if rows > self._rows_in(self._spare, tokens):
            self._spare = self._memory.allocate(0)  # free the old memory first
            self._spare = self._memory.allocate(self._parts * rows * self._row_bytes(tokens))
        self._block, self._spare = self._spare, self._block
        self._room, self._tokens = self._rows_in(self._block, tokens), tokens

    def _rows_in(self, block: Block, tokens: int) -> int:
        return block.nbytes // (self._parts * self._row_bytes(tokens))

    def _capacity_for(self, tokens: int) -> int:
        return next(
            (capacity for capacity in self._capacities if capacity >= tokens), self._capacities[-1]
        )

    def _line_bytes(self, tokens: int) -> int:
        """Bytes of one head's tokens."""
        return tokens * self._head_size * ITEM_BYTES[self._dtype]

    def _row_bytes(self, tokens: int) -> int:
        return self._heads * self._line_bytes(tokens)

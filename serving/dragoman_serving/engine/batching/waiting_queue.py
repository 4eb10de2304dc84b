"""A queue in which requests take turns.

Higher priority goes first. Within a priority, the k-th item of every request goes before the
(k+1)-th item of any: start-time fair queueing with items of equal size. So one request of 20,000
sentences does not delay a request of one. No locks, no clocks.

Source: Goyal, Vin and Cheng 1996, https://doi.org/10.1145/248156.248171
"""

from __future__ import annotations

import bisect
import collections
import itertools
from collections.abc import Callable
from typing import Generic, TypeVar

_Item = TypeVar("_Item")
_Key = tuple[int, int, int]
"""Negated priority, turn, arrival."""
_LAST_ARRIVAL = 1 << 62


class Turns:
    """The turns of one request: all its items are added with the same object.

    Attributes:
        last: turn of the item added last.
        reserved: reserved items that may still be added, for a bounded queue.
        released: whether its reservation was released.
    """

    def __init__(self) -> None:
        """Start before the first item."""
        self.last = 0
        self.reserved = 0
        self.released = False


class WaitingQueue(Generic[_Item]):
    """Waiting items, each with its expected work."""

    def __init__(self) -> None:
        """Start empty."""
        self._keys: list[_Key] = []
        """Keys of the items, sorted. Lists are fast enough for 40,000 items, because an insertion
        only moves memory, and a slice gives the sum of the work."""
        self._items: list[_Item] = []
        self._work: list[int] = []
        """Work of the items, in the same order."""
        self._current: collections.defaultdict[int, int] = collections.defaultdict(int)
        """Turn of the item that was taken last, by priority."""
        self._arrivals = itertools.count()

    def __len__(self) -> int:
        """Number of waiting items."""
        return len(self._items)

    def add(self, item: _Item, turns: Turns, work: int = 1, priority: int = 0) -> None:
        """Add an item.

        Args:
            item: the item.
            turns: turns of its request.
            work: its work, in the same unit for all items.
            priority: items of higher priority go first.
        """
        turns.last = max(turns.last, self._current[priority]) + 1
        key = (-priority, turns.last, next(self._arrivals))
        index = bisect.bisect(self._keys, key)
        self._keys.insert(index, key)
        self._items.insert(index, item)
        self._work.insert(index, work)

    def first(self) -> _Item:
        """Returns the next item; there must be one."""
        return self._items[0]

    def take(self) -> _Item:
        """Removes the next item, and returns it; there must be one."""
        priority, turn, _ = self._keys.pop(0)
        self._current[-priority] = turn
        del self._work[0]
        return self._items.pop(0)

    def drop(self, unwanted: Callable[[_Item], bool]) -> list[_Item]:
        """Removes unwanted items, and returns them in their order."""
        drops = list(map(unwanted, self._items))
        dropped = list(itertools.compress(self._items, drops))
        if dropped:
            keeps = [not drop for drop in drops]
            self._keys = list(itertools.compress(self._keys, keeps))
            self._items = list(itertools.compress(self._items, keeps))
            self._work = list(itertools.compress(self._work, keeps))
        return dropped

    def work_ahead(self, items: int, priority: int = 0) -> int:
        """Returns the work that would be taken before the last item of a new request.

        Args:
            items: number of items of the new request.
            priority: their priority.
        """
        last = (-priority, self._current[priority] + items, _LAST_ARRIVAL)
        return sum(self._work[: bisect.bisect(self._keys, last)])

"""Which waiting sentences form the next batch. Policy alone: no tensors, no clocks."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from dragoman.errors import DragomanError
from serving.engine.sentence import Sentence

_MOST_PADDED = 1.15
"""Padded over real tokens that a group may have."""


class Overloaded(DragomanError):
    """More sentences wait than the engine may hold."""


class Closed(DragomanError):
    """The engine takes no more sentences."""


class Waiting(Protocol):
    """Anything that carries a sentence."""

    @property
    def sentence(self) -> Sentence:
        """The sentence to translate."""
        ...


W = TypeVar("W", bound=Waiting)


@dataclass(frozen=True)
class BatchLimits:
    """Bounds that keep memory within what is known at start."""

    rows: int = 128
    """Sentences times their beam width in one batch."""
    waiting: int = 20_000
    """Sentences that may wait; more are refused."""


class Scheduler(Generic[W]):
    """First come, first served: a batch is what waits, shared evenly by the idle workers."""

    def __init__(self, limits: BatchLimits) -> None:
        """Begin with nothing waiting."""
        self._limits = limits
        self._waiting: deque[W] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._idle = 0

    def add(self, arrivals: Sequence[W]) -> None:
        """Let sentences wait, all or none of them.

        Raises:
            Overloaded: they would be too many.
            Closed: the scheduler was closed.
        """
        with self._changed:
            if self._closed:
                raise Closed("the engine has been shut down")
            held = len(self._waiting)
            if held + len(arrivals) > self._limits.waiting:
                raise Overloaded(
                    f"{held} sentences are waiting and {len(arrivals)} more would exceed the limit "
                    f"of {self._limits.waiting}: try again later, or send fewer"
                )
            self._waiting.extend(arrivals)
            self._changed.notify_all()

    def next_batch(self) -> list[W]:
        """Wait for sentences and take the next batch; an empty one once closed and done."""
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._waiting or self._closed)
            share = -(-len(self._waiting) // self._idle)
            self._idle -= 1
            batch: list[W] = []
            rows = 0
            while self._waiting and len(batch) < share:
                rows += self._waiting[0].sentence.options.beam_width
                if batch and rows > self._limits.rows:
                    break
                batch.append(self._waiting.popleft())
            return batch

    def close(self) -> None:
        """Take no more; what waits is still handed out."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def length_groups(lengths: Sequence[int]) -> list[slice]:
    """Cut lengths in rising order into groups that waste little when each is padded by itself.

    Source sentences differ in length by several times; padded to the longest of a batch, half of
    the encoder's work could be on padding.
    """
    groups: list[slice] = []
    start = tokens = 0
    for index, length in enumerate(lengths):
        if index > start and length * (index - start + 1) > _MOST_PADDED * (tokens + length):
            groups.append(slice(start, index))
            start, tokens = index, 0
        tokens += length
    return [*groups, slice(start, len(lengths))]

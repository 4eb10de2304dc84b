"""A clock that only waiting moves, so that a busy machine changes no measured time."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class VirtualTime:
    """Replaces the clock, and `asyncio.run`, for coroutines that need no real input and output."""

    def __init__(self) -> None:
        """Start at zero."""
        self.now_s = 0.0

    def move(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds

    def run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine to its end."""
        with asyncio.Runner(loop_factory=self._loop) as runner:
            return runner.run(coroutine)

    def _loop(self) -> asyncio.SelectorEventLoop:
        loop = asyncio.SelectorEventLoop(_Selector(self))
        loop.time = lambda: self.now_s  # type: ignore[method-assign]
        return loop


class _Selector(selectors.DefaultSelector):
    """Where an event loop waits: this one returns at once, and moves the clock instead."""

    def __init__(self, clock: VirtualTime) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(None if timeout is None else 0)
        if not ready and timeout is not None:
            self._clock.move(timeout)
        return ready

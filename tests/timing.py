"""Processor time of a call, how it grows with the input, and clocks of modules."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import TypeVar

import pytest

_Text = TypeVar("_Text")
_MOST_EXPONENT = 1.3
_MOST_OF_PROSE = 60.0
_SMALLEST = 16
_LEAST_S = 1e-4
"""Shorter times say nothing about growth."""


def fastest_s(run: Callable[[], object], times: int = 5) -> float:
    """The least processor time of some calls; other threads do not count."""
    taken_s = []
    for _ in range(times):
        begin_s = time.thread_time()
        run()
        taken_s.append(time.thread_time() - begin_s)
    return min(taken_s)


def fault_of_growth(
    run: Callable[[_Text], object], text_of: Callable[[int], _Text], size: int, prose_s: float
) -> str | None:
    """Returns what is wrong with the growth of a call's time, or None.

    The garbage collector is off meanwhile: its time depends on all other objects.

    Args:
        run: the call.
        text_of: makes an input of a size.
        size: the largest size.
        prose_s: time of the same call for plain prose of this size.
    """

    def measured_s(size: int, times: int) -> float:
        text = text_of(size)
        return fastest_s(lambda: run(text), times)

    def growth(size: int, times: int) -> tuple[float, float]:
        """The exponent from a quarter of a size, and the time; if the machine is busy, for both."""
        turns = [(measured_s(size // 4, 1), measured_s(size, 1)) for _ in range(times)]
        shorter_s, longest_s = map(min, zip(*turns, strict=True))
        return math.log(longest_s / shorter_s) / math.log(4), longest_s

    most_s = _MOST_OF_PROSE * prose_s
    gc.disable()
    try:
        # Small steps, so that a call whose time grows exponentially is ended early.
        step = _SMALLEST
        while step < size // 4:
            taken_s = measured_s(step, 1)
            if taken_s > 10 * most_s or (taken_s > most_s and measured_s(step, 5) > most_s):
                return f"{step} take more than {_MOST_OF_PROSE:g} times {size} of prose"
            step = step + 6 if step < 64 else 4 * step
        for times in (1, 3, 10):
            exponent, longest_s = growth(size, times)
            is_long = longest_s > 2 * prose_s + _LEAST_S
            if longest_s <= most_s and (exponent <= _MOST_EXPONENT or not is_long):
                return None
        if longest_s <= most_s and growth(4 * size, 3)[0] <= _MOST_EXPONENT:
            return None  # longer texts are read in another way, also in linear time
    finally:
        gc.enable()
    ratio = longest_s / prose_s
    return f"its time grows with n^{exponent:.2f}, and is {ratio:.1f} times that of prose"


def set_clock(patch: pytest.MonkeyPatch, module: str, monotonic: Callable[[], float]) -> None:
    """Replace the monotonic clock that one module reads; other threads keep theirs."""
    patch.setattr(f"{module}.time", SimpleNamespace(**{**vars(time), "monotonic": monotonic}))

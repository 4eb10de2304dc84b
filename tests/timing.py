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
        shorter, longest = text_of(size // 4), text_of(size)
        shorter_s = longest_s = math.inf
        # More often in case that the machine was busy, and by turns, so that it is for both.
        for _ in range(20):
            shorter_s = min(shorter_s, fastest_s(lambda: run(shorter), 1))
            longest_s = min(longest_s, fastest_s(lambda: run(longest), 1))
            if longest_s <= prose_s:
                return None
            exponent = math.log(longest_s / shorter_s) / math.log(4)
            is_steep = exponent > _MOST_EXPONENT and longest_s > 2 * prose_s + _LEAST_S
            if not is_steep and longest_s <= most_s:
                return None
    finally:
        gc.enable()
    ratio = longest_s / prose_s
    return f"its time grows with n^{exponent:.2f}, and is {ratio:.1f} times that of prose"


def set_clock(patch: pytest.MonkeyPatch, module: str, monotonic: Callable[[], float]) -> None:
    """Replace the monotonic clock that one module reads; other threads keep theirs."""
    patch.setattr(f"{module}.time", SimpleNamespace(**{**vars(time), "monotonic": monotonic}))

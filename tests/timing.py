"""Processor time of a call, for tests of how it grows."""

from __future__ import annotations

import time
from collections.abc import Callable


def fastest_s(run: Callable[[], object]) -> float:
    """The least processor time of five calls; other threads do not count."""
    taken_s = []
    for _ in range(5):
        begin_s = time.thread_time()
        run()
        taken_s.append(time.thread_time() - begin_s)
    return min(taken_s)

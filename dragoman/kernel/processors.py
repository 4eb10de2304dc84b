"""The processors of this machine that this process may use."""

from __future__ import annotations

import os


def usable_processors() -> set[int]:
    """Returns the indices of the processors on which this process may run, at least one.

    Linux may restrict a process to some of them, as with `taskset` and containers. On other
    systems, all processors count.
    """
    try:
        return os.sched_getaffinity(0)
    except AttributeError:
        return set(range(os.cpu_count() or 1))

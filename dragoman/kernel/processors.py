"""The processors of this machine that this process may use."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path


def usable_processors() -> set[int]:
    """Returns the indices of the processors on which this process may run, at least one.

    Linux may restrict a process to some of them, as with `taskset` and containers. On other
    systems, all processors count.
    """
    try:
        return os.sched_getaffinity(0)
    except AttributeError:
        return set(range(os.cpu_count() or 1))


def usable_cores(root: Path = Path("/")) -> int:
    """Number of cores that this process may keep busy: at least one.

    A container's limit, such as Docker's `--cpus` or Kubernetes' `limits.cpu`, restricts processor
    time instead of processors. Part of a core counts as one.

    Args:
        root: folder with `proc` and `sys`.

    Source: https://docs.kernel.org/admin-guide/cgroup-v2.html, `cpu.max`;
        https://docs.kernel.org/scheduler/sched-bwc.html, `cpu.cfs_quota_us`.
    """
    cores = len(usable_processors())
    return min([cores, *(max(1, math.ceil(limit)) for limit in _limits(root))])


def _limits(root: Path) -> Iterator[float]:
    """Cores that the control groups of this process allow, from both versions of them."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            folder = root / "sys/fs/cgroup"
        elif "cpu" in controllers.split(","):
            folder = root / "sys/fs/cgroup/cpu"
        else:
            continue
        inner = folder / group.strip("/")
        for each in (inner, *inner.parents):  # a group has the limits of those around it too
            if each.is_relative_to(folder):
                yield from _limit_of(each)


def _limit_of(group: Path) -> Iterator[float]:
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota = (group / "cpu.cfs_quota_us").read_text().strip()
            period = (group / "cpu.cfs_period_us").read_text().strip()
        if quota not in ("max", "-1"):
            yield int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return  # no limit that can be read

"""CPU seconds used by processes and processors, from Linux's /proc.

Source: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html, and proc_stat.5.html beside it
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from dragoman.kernel.processors import usable_processors

_PROC = Path("/proc")
_PARENT, _USER, _SYSTEM = 1, 11, 12
"""Indices of `ppid`, `utime` and `stime` among the fields after the name."""
_IDLE, _WAITING, _STEAL = 3, 4, 7
"""Indices of `idle`, `iowait` and `steal` among a processor's fields, before those of guests."""


def cpu_s(pids: Iterable[int]) -> float:
    """User and system seconds of some processes together, in units of a clock tick.

    Raises:
        OSError: a process has ended.
    """
    fields = [_read_process(_PROC / str(pid)) for pid in pids]
    return _seconds(sum(int(stat[_USER]) + int(stat[_SYSTEM]) for stat in fields))


def machine_busy_s() -> float:
    """Seconds in which the processors available to this process were busy, for any process."""
    names = {f"cpu{number}" for number in usable_processors()}
    ticks = 0
    for line in (_PROC / "stat").read_text(encoding="ascii").splitlines():
        name, *fields = line.split()
        if name in names:
            counts = list(map(int, fields[: _STEAL + 1]))
            ticks += sum(counts) - counts[_IDLE] - counts[_WAITING]
    return _seconds(ticks)


def _read_process(folder: Path) -> list[str]:
    """The fields of `stat` after the name, which may itself contain spaces and brackets."""
    line = (folder / "stat").read_text(encoding="utf-8", errors="replace")
    return line.rpartition(")")[2].split()


def _seconds(ticks: int) -> float:
    return ticks / os.sysconf("SC_CLK_TCK")

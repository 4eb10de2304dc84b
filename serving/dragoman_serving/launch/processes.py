"""Information about other processes of this machine, from /proc."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection
from pathlib import Path

_PROC = Path("/proc")
_DEAD = ("Z", "X")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """Returns the living child processes of a process."""
    pids = (int(path.name) for path in _PROC.iterdir() if path.name.isdigit())
    return [child for child in pids if _parent(child) == pid and alive(child)]


def alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    fields = _fields(pid)
    return bool(fields) and fields[0] not in _DEAD


def blocks_signals(pid: int, numbers: Collection[int]) -> bool:
    """Whether a thread of a process blocks one of these signals, as in a signal handler.

    Source: https://man7.org/linux/man-pages/man5/proc_pid_status.5.html, SigBlk
    """
    mask = sum(1 << (number - 1) for number in numbers)
    for status in (_PROC / str(pid) / "task").glob("*/status"):
        with contextlib.suppress(OSError):
            match = re.search(r"^SigBlk:\s*([0-9a-f]+)$", status.read_text(), re.MULTILINE)
            if match and int(match[1], 16) & mask:
                return True
    return False


def memory_bytes(pid: int) -> int:
    """Returns the private memory of a process; 0 if it has exited.

    Source: https://man7.org/linux/man-pages/man5/proc_pid_statm.5.html
    """
    try:
        _, resident, shared, *_ = (_PROC / str(pid) / "statm").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * _PAGE_BYTES


def cpu_s(pid: int) -> float:
    """Returns the processor time of a process, in seconds; 0 if it has exited.

    Source: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html, utime and stime
    """
    return sum(map(int, _fields(pid)[11:13])) / _CLOCK_TICKS


def _parent(pid: int) -> int | None:
    fields = _fields(pid)
    return int(fields[1]) if fields else None


def _fields(pid: int) -> list[str]:
    """The fields in `stat` after the name: state, parent and so on; empty if it has exited."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()

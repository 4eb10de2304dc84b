"""Processes that hang."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

_WAIT_S = 60


def hang(pid: int) -> None:
    """Stop a process, and wait until each of its threads has stopped.

    A thread that waits for a processor when the signal arrives may still run once more.
    """
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + _WAIT_S
    while any(_state(thread) != "T" for thread in Path(f"/proc/{pid}/task").iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def _state(thread: Path) -> str:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]

"""Waiting for conditions that have no event, and for processes that hang."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from dragoman_serving.engine.futures import Future

WAIT_S = 120
"""Bound of a wait. No condition takes that long."""


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until a condition is true."""
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.002)


def wait_until_done(futures: Iterable[Future[Any]]) -> None:
    """Wait until all futures of the engine are done."""
    for future in futures:
        wait_for(future.done)


def hang(pid: int) -> None:
    """Stop a process, and wait until each of its threads has stopped.

    A thread that waits for a processor when the signal arrives may still run once more.
    """
    os.kill(pid, signal.SIGSTOP)
    threads = Path(f"/proc/{pid}/task")
    wait_for(lambda: all(_state(thread) == "T" for thread in threads.iterdir()))


def _state(thread: Path) -> str:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]

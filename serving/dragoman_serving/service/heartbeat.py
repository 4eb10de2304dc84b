"""Heartbeats: the engine process writes one byte to a pipe every half second.

The byte tells whether requests wait for an answer.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

BEAT_S = 0.5
IDLE, BUSY = b"\0", b"\1"


def start_beating(descriptor: int, is_busy: Callable[[], bool]) -> None:
    """Start a thread that writes to a pipe until its reader is gone.

    Args:
        descriptor: the write end of the pipe.
        is_busy: whether requests wait for an answer.
    """
    os.set_blocking(descriptor, False)
    threading.Thread(
        target=_beat, args=(descriptor, is_busy), name="dragoman-heartbeat", daemon=True
    ).start()


def _beat(descriptor: int, is_busy: Callable[[], bool]) -> None:
    while True:
        try:
            os.write(descriptor, BUSY if is_busy() else IDLE)
        except BlockingIOError:
            pass  # the pipe is full, because nothing has read it for long
        except OSError:
            return  # the launcher has exited
        time.sleep(BEAT_S)

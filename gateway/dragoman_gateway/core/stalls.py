"""Notices when the event loop stalls, so that no request is answered."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import sys
import time

_STALL_S = 1.0
_BEAT_S = 0.25
_PAUSE_S = 60.0
"""Time without another traceback in the log, after one."""


class Stalls:
    """Watches the event loop.

    Attributes:
        number: how often it has stalled.
    """

    def __init__(self, stall_s: float = _STALL_S) -> None:
        """Start without stalls.

        Args:
            stall_s: time without the event loop that is a stall.
        """
        self._stall_s, self.number = stall_s, 0
        self._quiet_until_s = 0.0

    async def watch(self) -> None:
        """Watch the event loop until cancelled.

        The traceback of all threads is written to stderr while the loop still hangs, by a thread in
        C: one in Python would wait for the interpreter's lock, which a regular expression holds.
        """
        try:
            while True:
                begin_s = time.monotonic()
                if begin_s >= self._quiet_until_s:
                    with contextlib.suppress(ValueError, OSError):  # stderr is closed, or no file
                        faulthandler.dump_traceback_later(self._stall_s, file=sys.stderr)
                await asyncio.sleep(min(_BEAT_S, self._stall_s / 4))
                now_s = time.monotonic()
                if now_s - begin_s >= self._stall_s:
                    self.number += 1
                    self._quiet_until_s = now_s + _PAUSE_S
                    faulthandler.cancel_dump_traceback_later()
        finally:
            faulthandler.cancel_dump_traceback_later()

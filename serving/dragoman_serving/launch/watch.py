"""Watching a server's processes: who ended, and how long the engine has been silent or idle."""

from __future__ import annotations

import contextlib
import os
import select

from dragoman_serving.service.heartbeat import BEAT_S, IDLE

TICK_S = 0.5
"""The longest that one look takes."""
_READ_BYTES = 1 << 16


class Watch:
    """Waits for the end of processes and for the engine's heartbeats.

    Silence is counted in waits that brought nothing, not by a clock: a launcher that was itself
    stopped for an hour has seen one silent tick.

    Attributes:
        silent_s: seconds since the last sign of life of the engine, or of anything else.
        idle_s: seconds for which the engine has said that no request waits for an answer.
    """

    def __init__(self, pids: list[int], heartbeat: int | None) -> None:
        """Begin to watch; older heartbeats do not count.

        Args:
            pids: processes whose end is waited for.
            heartbeat: file descriptor of the engine's heartbeats, if there is an engine.
        """
        self.silent_s = 0.0
        self.idle_s = 0.0
        self._heartbeat = heartbeat
        self._poll = select.poll()
        self._open = []
        for pid in pids:
            # Kernels before 5.3 have no such descriptors; there an end is seen after a tick.
            with contextlib.suppress(OSError):
                self._open.append(os.pidfd_open(pid))
                self._poll.register(self._open[-1], select.POLLIN)
        if heartbeat is not None:
            os.set_blocking(heartbeat, False)
            with contextlib.suppress(BlockingIOError):
                os.read(heartbeat, _READ_BYTES)
            self._poll.register(heartbeat, select.POLLIN)

    def wait(self, most_s: float = TICK_S) -> None:
        """Return when a process has ended or the engine gave a sign, at the latest after a time.

        Args:
            most_s: that time.
        """
        ready = [descriptor for descriptor, _ in self._poll.poll(most_s * 1000)]
        self.silent_s = 0.0 if ready else self.silent_s + most_s
        if self._heartbeat in ready:
            self._hear(os.read(self._heartbeat, _READ_BYTES))

    def _hear(self, beats: bytes) -> None:
        if not beats:  # the engine has ended
            self._poll.unregister(self._heartbeat or 0)
        idle = beats.count(IDLE) == len(beats)
        self.idle_s = self.idle_s + len(beats) * BEAT_S if idle else 0.0

    def close(self) -> None:
        """Close what was opened."""
        for descriptor in self._open:
            os.close(descriptor)

"""Watches a server's processes: exits, and how long the engine has been silent or idle."""

from __future__ import annotations

import contextlib
import os
import select

from dragoman_serving.service.heartbeat import BEAT_S, IDLE

TICK_S = 0.5
"""Longest wait of one check."""
_READ_BYTES = 1 << 16


class Watch:
    """Waits for processes to exit, and for the engine's heartbeats.

    Silence is counted in waits without an event, not by a clock, so that a pause of the launcher
    itself counts as one wait.

    Attributes:
        silent_s: seconds since the last heartbeat or other event.
        idle_s: seconds for which the engine has reported that no request waits for an answer.
    """

    def __init__(self, pids: list[int], heartbeat: int | None) -> None:
        """Start watching; older heartbeats do not count.

        Args:
            pids: processes to wait for.
            heartbeat: file descriptor of the engine's heartbeats, if there is an engine.
        """
        self.silent_s = 0.0
        self.idle_s = 0.0
        self._heartbeat = heartbeat
        self._poll = select.poll()
        self._open = []
        for pid in pids:
            # Kernels before 5.3 have no pidfds; an exit is then noticed at the next check.
            with contextlib.suppress(OSError):
                self._open.append(os.pidfd_open(pid))
                self._poll.register(self._open[-1], select.POLLIN)
        if heartbeat is not None:
            os.set_blocking(heartbeat, False)
            with contextlib.suppress(BlockingIOError):
                os.read(heartbeat, _READ_BYTES)
            self._poll.register(heartbeat, select.POLLIN)

    def wait(self, most_s: float = TICK_S) -> None:
        """Wait until a process exits or a heartbeat comes, but not longer than a timeout.

        Args:
            most_s: the timeout.
        """
        ready = [descriptor for descriptor, _ in self._poll.poll(most_s * 1000)]
        self.silent_s = 0.0 if ready else self.silent_s + most_s
        if self._heartbeat in ready:
            self._hear(os.read(self._heartbeat, _READ_BYTES))

    def _hear(self, beats: bytes) -> None:
        if not beats:  # the engine has exited
            self._poll.unregister(self._heartbeat or 0)
        idle = beats.count(IDLE) == len(beats)
        self.idle_s = self.idle_s + len(beats) * BEAT_S if idle else 0.0

    def close(self) -> None:
        """Close the file descriptors."""
        for descriptor in self._open:
            os.close(descriptor)

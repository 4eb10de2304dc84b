"""Watches a server's processes: exits, and how long the engine has been silent or idle."""

from __future__ import annotations

import contextlib
import math
import os
import select
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dragoman_serving.service.heartbeat import BEAT_S, IDLE

TICK_S = 0.5
"""Longest wait of one check."""
_READ_BYTES = 1 << 16


@dataclass
class Heartbeat:
    """The heartbeats of an engine process, which a `Watch` reads.

    Attributes:
        descriptor: the read end of their pipe.
        silent_s: seconds since the last one.
        idle_s: seconds for which the process has reported that no request waits for an answer;
            infinite: it has exited.
    """

    descriptor: int
    silent_s: float = 0.0
    idle_s: float = 0.0


class Watch:
    """Waits for processes to exit, and for the heartbeats of engine processes.

    Only the time of waits counts as silence, each at most as long as it may be, so that a pause of
    the launcher itself counts as one wait.
    """

    def __init__(
        self, pids: Iterable[int], heartbeats: Sequence[Heartbeat], anew: bool = True
    ) -> None:
        """Start watching.

        Args:
            pids: processes to wait for.
            heartbeats: those of the engine processes.
            anew: whether older heartbeats, and silence before, do not count.
        """
        self._heartbeats = heartbeats
        self._poll = select.poll()
        self._open = []
        for pid in pids:
            # Kernels before 5.3 have no pidfds; an exit is then noticed at the next check.
            with contextlib.suppress(OSError):
                self._open.append(os.pidfd_open(pid))
                self._poll.register(self._open[-1], select.POLLIN)
        for heartbeat in heartbeats:
            os.set_blocking(heartbeat.descriptor, False)
            if anew:
                heartbeat.silent_s = heartbeat.idle_s = 0.0
                with contextlib.suppress(BlockingIOError):
                    os.read(heartbeat.descriptor, _READ_BYTES)
            self._poll.register(heartbeat.descriptor, select.POLLIN)

    @property
    def silent_s(self) -> float:
        """Seconds for which no engine process has sent a heartbeat."""
        return min((heartbeat.silent_s for heartbeat in self._heartbeats), default=0.0)

    @property
    def idle_s(self) -> float:
        """Seconds for which all engine processes have reported that no request waits."""
        return min((heartbeat.idle_s for heartbeat in self._heartbeats), default=0.0)

    def wait(self, most_s: float = TICK_S, more_s: float = 0.0) -> bool:
        """Wait until a process exits or a heartbeat comes, but not longer than a timeout.

        Args:
            most_s: the timeout.
            more_s: time before this wait that counts as silence too, if no heartbeat came in it.

        Returns:
            Whether a process has exited or a heartbeat came.
        """
        begin_s = time.monotonic()
        ready = [descriptor for descriptor, _ in self._poll.poll(most_s * 1000)]
        passed_s = min(time.monotonic() - begin_s, most_s) + more_s
        for heartbeat in self._heartbeats:
            if heartbeat.descriptor in ready:
                self._hear(heartbeat)
            else:
                heartbeat.silent_s += passed_s
        return bool(ready)

    def _hear(self, heartbeat: Heartbeat) -> None:
        beats = os.read(heartbeat.descriptor, _READ_BYTES)
        heartbeat.silent_s = 0.0
        if not beats:  # the engine has exited
            self._poll.unregister(heartbeat.descriptor)
            heartbeat.idle_s = math.inf
        elif beats.count(IDLE) == len(beats):
            heartbeat.idle_s += len(beats) * BEAT_S
        else:
            heartbeat.idle_s = 0.0

    def close(self) -> None:
        """Close the file descriptors."""
        for descriptor in self._open:
            os.close(descriptor)

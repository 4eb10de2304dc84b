"""A health check of Triton, over one connection that stays open."""

from __future__ import annotations

import socket
import time

from dragoman_serving.launch.processes import cpu_s
from dragoman_serving.launch.watch import TICK_S

_QUESTION = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
_READ_BYTES = 1 << 16
_CONNECT_S = 0.1
_AT_WORK = 0.05
"""Processor load above which Triton is working. A Triton that hangs, with threads that only wake up
and sleep again, uses a tenth of it."""


class Pulse:
    """Checks whether Triton answers, without blocking.

    Silence counts only while an answer is due and Triton does no work, because it answers late if
    all its threads are busy with large requests. Each check adds at most half a second, so that a
    pause of the launcher itself does not count.

    Attributes:
        silent_s: seconds of silence since the last answer.
    """

    def __init__(self, pid: int, host: str, port: int) -> None:
        """Start without a connection.

        Args:
            pid: process id of Triton.
            host: IP address of its HTTP endpoints.
            port: port of its HTTP endpoints.
        """
        self.silent_s = 0.0
        self._pid, self._address = pid, (host, port)
        self._socket: socket.socket | None = None
        self._looked_s, self._worked_s = time.monotonic(), cpu_s(pid)

    def look(self) -> None:
        """Read the answer and ask again; call this about every half second."""
        now_s, worked_s = time.monotonic(), cpu_s(self._pid)
        passed_s, work_s = now_s - self._looked_s, worked_s - self._worked_s
        self._looked_s, self._worked_s = now_s, worked_s
        if self._hears():
            self.silent_s = 0.0
        elif work_s < _AT_WORK * passed_s:
            self.silent_s += min(passed_s, TICK_S)

    def close(self) -> None:
        """Close the connection; otherwise Triton would wait for it when it stops."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _hears(self) -> bool:
        """Whether an answer has come since the last call."""
        try:
            if self._socket is None:
                self._socket = socket.create_connection(self._address, _CONNECT_S)
                self._socket.setblocking(False)
                self._socket.sendall(_QUESTION)
                return False
            if self._socket.recv(_READ_BYTES):
                self._socket.sendall(_QUESTION)
                return True
        except BlockingIOError:
            return False
        except OSError:
            pass  # for example, the queue of connections is full
        self.close()  # the next check connects again
        return False

"""Triton's pulse: whether it still answers, asked over one connection that stays open."""

from __future__ import annotations

import socket
import time

from dragoman_serving.launch.processes import cpu_s
from dragoman_serving.launch.watch import TICK_S

_QUESTION = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
_READ_BYTES = 1 << 16
_CONNECT_S = 0.1
_AT_WORK = 0.05
"""Processor time over time that shows work. The threads of a Triton that hangs, which only wake up
and sleep again, take a tenth of it."""


class Pulse:
    """Asks Triton whether it lives, and waits for nothing.

    Silence counts only while Triton owes an answer and does no work: one whose threads are all busy
    with large requests answers late. It is counted in looks, so that a launcher that was itself
    stopped for an hour has seen half a second of it.

    Attributes:
        silent_s: seconds of silence since its last answer.
    """

    def __init__(self, pid: int, host: str, port: int) -> None:
        """Begin without a connection.

        Args:
            pid: of Triton.
            host: IP address to ask.
            port: of its HTTP endpoints.
        """
        self.silent_s = 0.0
        self._pid, self._address = pid, (host, port)
        self._socket: socket.socket | None = None
        self._looked_s, self._worked_s = time.monotonic(), cpu_s(pid)

    def look(self) -> None:
        """Hear the answer and ask again; to be called every half second or so."""
        now_s, worked_s = time.monotonic(), cpu_s(self._pid)
        passed_s, work_s = now_s - self._looked_s, worked_s - self._worked_s
        self._looked_s, self._worked_s = now_s, worked_s
        if self._hears():
            self.silent_s = 0.0
        elif work_s < _AT_WORK * passed_s:
            self.silent_s += min(passed_s, TICK_S)

    def close(self) -> None:
        """Close the connection: Triton would wait for it when it is to stop."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _hears(self) -> bool:
        """Whether an answer has come since this was asked last."""
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
            pass  # such as no answer to the connection, whose queue is full
        self.close()  # the next look makes another
        return False

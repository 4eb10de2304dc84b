"""The connection of a client to a model of the engine process."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import socket
import threading
from collections import deque
from collections.abc import Iterator

from dragoman_options.frames import MOST_BYTES, FrameSplitter, Kind

log = logging.getLogger(__name__)

_RECEIVE_BYTES = 1 << 18
_MOST_BACKLOG_BYTES = 2 * MOST_BYTES
"""Unsent bytes at which a client that does not read is cut off."""
_LAST_S = 5.0
"""Timeout for unsent data when a connection is closed."""

# `socket.send` releases the GIL. For each answer, a worker between two steps would then wait to get
# it back from another thread, although the call returns immediately. So the GIL is kept.
_send = ctypes.PyDLL(None, use_errno=True).send
_send.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int)
_send.restype = ctypes.c_ssize_t
_FLAGS = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)


class Connection:
    """Sends and receives frames over a socket.

    Sending never blocks. A client that does not read is cut off when its backlog is too large.
    """

    def __init__(self, connected: socket.socket) -> None:
        """Take ownership of a connected socket."""
        self._socket = connected
        self._lock = threading.Lock()
        self._backlog: deque[memoryview] = deque()
        self._backlog_bytes = 0
        self._has_backlog = threading.Condition(self._lock)
        self._closed = self._is_cut_off = False
        self._flusher = threading.Thread(target=self._flush, name="dragoman-backlog", daemon=True)
        self._flusher.start()

    def frames(self) -> Iterator[tuple[Kind, bytes]]:
        """Yields received frames until the other side closes.

        Raises:
            Damaged: the received bytes are not valid frames.
        """
        splitter = FrameSplitter()
        with contextlib.suppress(OSError):
            while received := self._socket.recv(_RECEIVE_BYTES):
                yield from splitter.feed(received)

    @property
    def is_behind(self) -> bool:
        """Whether there is a backlog, because the other side reads too slowly."""
        return bool(self._backlog)

    def send(self, frame: bytes) -> None:
        """Send a frame now, or queue it; does nothing if the other side has closed."""
        with self._lock:
            if self._is_cut_off:
                return
            sent = 0 if self._backlog else self._send_now(frame)
            if sent == len(frame):
                return
            if self._backlog_bytes > _MOST_BACKLOG_BYTES:
                log.error("a client does not read its answers: it is cut off")
                self._is_cut_off = True
                self.hang_up()
                return
            self._backlog.append(memoryview(frame)[sent:])
            self._backlog_bytes += len(frame) - sent
            self._has_backlog.notify()

    def _send_now(self, frame: bytes) -> int:
        """Send without blocking, and return the bytes sent; all if the other side has closed."""
        sent = _send(self._socket.fileno(), frame, len(frame), _FLAGS)
        if sent >= 0:
            return int(sent)
        return 0 if ctypes.get_errno() in (errno.EAGAIN, errno.EINTR) else len(frame)

    def close(self) -> None:
        """Send the backlog, as far as the other side reads it, and close."""
        with self._lock:
            self._closed = True
            self._has_backlog.notify()
        self._flusher.join(_LAST_S)
        self.hang_up()
        self._flusher.join()
        self._socket.close()

    def stop_reading(self) -> None:
        """Let `frames` end; what was sent still reaches the other side."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)

    def hang_up(self) -> None:
        """Shut the socket down, so that both sides see its end."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _flush(self) -> None:
        while True:
            with self._lock:
                while not self._backlog and not self._closed:
                    self._has_backlog.wait()
                if not self._backlog:
                    return
                first = self._backlog[0]
            try:
                self._socket.sendall(first)
            except OSError:  # the other side has closed
                with self._lock:
                    self._backlog.clear()
                    self._backlog_bytes = 0
                continue
            # Removed only now, so that no later frame overtakes it.
            with self._lock:
                self._backlog.popleft()
                self._backlog_bytes -= len(first)

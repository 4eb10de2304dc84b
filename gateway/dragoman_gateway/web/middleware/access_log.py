"""The access log: one JSON object per line, without texts, queries, addresses and secrets.

A slow reader of the log never blocks a request: lines that it does not read in time are dropped and
counted.
"""

from __future__ import annotations

import os
import queue
import threading
from datetime import UTC, datetime

import msgspec

from dragoman_gateway.access.record import RequestRecord

_WAITING = 10_000
"""Maximum number of waiting lines."""
_LAST_S = 2.0
_STDERR = 2


class AccessLog:
    """Writes a line for each request, in a separate thread."""

    def __init__(self, out: int = _STDERR) -> None:
        """Start the thread.

        Args:
            out: file descriptor to write to.
        """
        self._out = out
        self._lines: queue.Queue[bytes | None] = queue.Queue(_WAITING)
        self._dropped = 0
        self._thread = threading.Thread(target=self._write_all, name="access-log", daemon=True)
        self._thread.start()

    def write(
        self,
        record: RequestRecord,
        took_s: float,
        *,
        protocol: str,
        method: str,
        endpoint: str | None,
        request_id: str | None = None,
    ) -> None:
        """Log a request.

        Args:
            record: its record.
            took_s: its duration.
            protocol: name of the protocol.
            method: HTTP method, or gRPC.
            endpoint: path with the names of its parameters, never their values.
            request_id: id of the request, as in its answer.
        """
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = msgspec.json.encode(
            {
                "time": now,
                "request_id": request_id,
                "trace_id": record.trace_id,
                "protocol": protocol,
                "method": method,
                "endpoint": endpoint,
                "status": record.status,
                "milliseconds": round(1000 * took_s, 2),
                "characters": record.characters,
                "key": record.key_id,
            }
        )
        try:
            self._lines.put_nowait(line + b"\n")
        except queue.Full:
            self._dropped += 1

    def close(self) -> None:
        """Write the waiting lines."""
        try:
            self._lines.put(None, timeout=_LAST_S)
        except queue.Full:
            return
        self._thread.join(_LAST_S)

    def _write_all(self) -> None:
        while (line := self._lines.get()) is not None:
            dropped, self._dropped = self._dropped, 0
            if dropped:
                line = b'{"dropped_lines":%d}\n' % dropped + line
            while line:
                try:
                    line = line[os.write(self._out, line) :]
                except OSError:  # closed: nobody reads the log
                    return

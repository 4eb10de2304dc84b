"""Filters Triton's log on its way to stderr: counts repeated lines, and drops two kinds of lines.

Triton may write 29 MB of the same line per second, for example when it runs out of file
descriptors, and it blocks if the log is not read. So its log goes through a pipe that is always
read.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import re
import select
import threading
import time

REPORT_S = 1.0
"""Seconds between two reports of lines that were not printed."""
_BURST = 10
"""Similar lines that are printed before more are only counted, so that tables and stack traces
stay."""
_KEYS = 256
"""Kinds of lines that are counted separately between two reports."""
_KEY_BYTES = 200
_CHUNK_BYTES = 1 << 16
_CHUNKS = 64
"""Maximum chunks in the queue for a slow stderr."""
_LAST_S = 2.0
"""Timeout for writing the rest of the log when it is closed."""
_DIGITS = re.compile(rb"\d+")
_CRASH = re.compile(rb"Signal \((6|11)\) received")
_EXPECTED = re.compile(
    rb'E\d{4} \S+ \d+ server\.cc:\d+\] "CudaDriverHelper has not been initialized\."'
    rb"|Signal \(15\) received\."
)
"""Lines that are not printed, because they look like faults: the first is written on a machine
without a GPU, the second on SIGTERM."""


class RepeatedLines:
    """Decides which lines of a log are printed. Lines are similar if only digits differ."""

    def __init__(self) -> None:
        """Start without lines."""
        self._seen: dict[bytes, int] = {}
        self._hidden: dict[bytes, int] = {}

    def take(self, line: bytes, times: int = 1) -> bytes:
        """Add consecutive equal lines.

        Args:
            line: the line with its line end.
            times: number of lines.

        Returns:
            The lines to print now.
        """
        key = _DIGITS.sub(b"#", line[:_KEY_BYTES])
        if key not in self._seen and len(self._seen) >= _KEYS:
            return line * times
        seen = self._seen.get(key, 0)
        printed = min(times, max(0, _BURST - seen))
        self._seen[key] = seen + times
        if times > printed:
            self._hidden[key] = self._hidden.get(key, 0) + times - printed
        return line * printed

    def report(self) -> bytes:
        """Returns a report of the lines that were not printed since the last one.

        Lines that have repeated since then stay hidden; all others are printed again.
        """
        report = b"".join(
            b"(%d more lines like: %s)\n" % (count, key.strip())
            for key, count in self._hidden.items()
        )
        self._seen = dict.fromkeys(self._hidden, _BURST)
        self._hidden = {}
        return report


class LogPipe:
    """A pipe to stderr that filters repeated lines; writing to it never blocks.

    If stderr is too slow, lines are dropped and counted; if it is closed, all are dropped.

    Attributes:
        tells_of_crash: whether Triton has logged a fatal signal.
    """

    def __init__(self, out: int = 2) -> None:
        """Start the threads.

        Args:
            out: file descriptor to write to.
        """
        self._out = out
        self._reading, self.descriptor = os.pipe()
        self._lines = RepeatedLines()
        self._partial = b""
        self.tells_of_crash = False
        self._dropped_bytes = 0
        self._chunks: queue.Queue[bytes | None] = queue.Queue(_CHUNKS)
        self._threads = [
            threading.Thread(target=run, name="dragoman-log", daemon=True)
            for run in (self._read_all, self._write_all)
        ]
        for thread in self._threads:
            thread.start()

    def say(self, message: str) -> None:
        """Write a line, after those that are already in the pipe."""
        os.write(self.descriptor, f"{message}\n".encode())

    def close(self) -> None:
        """Write the rest of the log, after all other writers have closed the pipe."""
        os.close(self.descriptor)
        for thread in self._threads:
            thread.join(_LAST_S)

    def _read_all(self) -> None:
        report_at_s = time.monotonic() + REPORT_S
        poll = select.poll()
        poll.register(self._reading, select.POLLIN)
        while True:
            wait_s = max(0.0, report_at_s - time.monotonic())
            if poll.poll(wait_s * 1000):
                received = os.read(self._reading, _CHUNK_BYTES)
                if not received:
                    break
                self._put(self._take(received))
            if time.monotonic() >= report_at_s:
                self._put(self._lines.report())
                report_at_s = time.monotonic() + REPORT_S
        os.close(self._reading)
        self._put(self._partial + self._lines.report())
        with contextlib.suppress(queue.Full):
            self._chunks.put(None, timeout=_LAST_S)

    def _take(self, received: bytes) -> bytes:
        *lines, self._partial = (self._partial + received).split(b"\n")
        if len(self._partial) > _CHUNK_BYTES:  # a very long line
            lines, self._partial = [*lines, self._partial], b""
        self.tells_of_crash = self.tells_of_crash or any(map(_CRASH.match, lines))
        return b"".join(
            self._lines.take(line + b"\n", sum(1 for _ in equal))
            for line, equal in itertools.groupby(lines)
            if not _EXPECTED.fullmatch(line)
        )

    def _put(self, chunk: bytes) -> None:
        if not chunk:
            return
        try:
            self._chunks.put_nowait(chunk)
        except queue.Full:
            self._dropped_bytes += len(chunk)

    def _write_all(self) -> None:
        while (chunk := self._chunks.get()) is not None:
            self._write(chunk)
            dropped, self._dropped_bytes = self._dropped_bytes, 0
            if dropped:
                self._write(b"(%d bytes of the log were dropped: stderr is slow)\n" % dropped)

    def _write(self, chunk: bytes) -> None:
        while chunk:
            try:
                chunk = chunk[os.write(self._out, chunk) :]
            except BlockingIOError:  # another process that shares stderr made it non-blocking
                select.select([], [self._out], [])
            except OSError:  # stderr is closed
                return

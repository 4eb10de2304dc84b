"""Calls that do not crash the server if the caller abandons them early.

A cancelled call can crash Triton 24.10, with signal 11 or a corrupted heap. For a stream this can
happen at any time, before and after its first message, so a stream is never cancelled. For a call
with one answer it can happen while the server is answering, so only long calls are cancelled; for
these, about one cancellation in several hundred thousand hits that moment. A caller that abandons
a call does not wait: the call is read to its end in the background, at most until the server's
deadline. gRPC's own deadline also cancels, so it is set well after the server's.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from dragoman_client.core.errors import DeadlineExceeded

DEADLINE_GRACE_S = 3.0
"""Time between the server's deadline and gRPC's; the extra wait for a server that hangs."""
_ANSWER_GRACE_S = 0.1
"""Time for the server's answer that its deadline has passed to arrive."""
_TOO_LATE = "the answer was not complete in time"
_End = Exception | None
"""How a stream ended: with a gRPC error, or None for its regular end."""


class StreamReader:
    """Reads a call to its end, in a thread.

    The thread is not a daemon: the exit of the process would close its connections, which cancels
    the call.
    """

    def __init__(self, call: Any, timeout_s: float, close: Callable[[], None]) -> None:
        """Start reading.

        Args:
            call: a call of `grpc`.
            timeout_s: how long `next` waits, for all messages together.
            close: called when the call has ended.
        """
        self._call, self._close = call, close
        self._deadline_s = time.monotonic() + timeout_s
        self._came: queue.SimpleQueue[tuple[Any, _End]] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="dragoman-stream").start()

    async def next(self) -> Any:
        """Returns the next message, or None at the end. Blocks; see `blocking`.

        Raises:
            DeadlineExceeded: the message did not arrive in time.
            grpc.RpcError: the call failed.
        """
        try:
            message, error = self._came.get(timeout=max(0.0, self._deadline_s - time.monotonic()))
        except queue.Empty:
            raise DeadlineExceeded(_TOO_LATE) from None
        if error is not None:
            raise error
        return message

    def _read(self) -> None:
        end: _End = None
        try:
            for message in self._call:
                self._came.put((message, None))
        except Exception as error:  # passed on to the reader, whatever it is
            end = error
        finally:
            self._came.put((None, end))
            self._close()


class AsyncStreamReader:
    """Reads a call of `grpc.aio` to its end, in a task; see `StreamReader`."""

    def __init__(self, call: Any, timeout_s: float) -> None:
        """Start reading, in the running event loop."""
        self._call = call
        self._deadline_s = time.monotonic() + timeout_s
        self._came: asyncio.Queue[tuple[Any, _End]] = asyncio.Queue()
        self.reading = asyncio.create_task(self._read())
        """Ends with the call. Must not be cancelled: that would cancel the call."""

    async def next(self) -> Any:
        """See `StreamReader`."""
        try:
            left_s = self._deadline_s - time.monotonic()
            # Python 3.11's `wait_for` ignores a cancellation that arrives with the message.
            async with asyncio.timeout(left_s):
                message, error = await self._came.get()
        except TimeoutError:
            raise DeadlineExceeded(_TOO_LATE) from None
        if error is not None:
            raise error
        return message

    async def _read(self) -> None:
        end: _End = None
        try:
            async for message in self._call:
                self._came.put_nowait((message, None))
        except Exception as error:  # passed on to the reader, whatever it is
            end = error
        finally:
            self._came.put_nowait((None, end))


class OpenStreams:
    """The open streams of an asynchronous channel, which must not be closed before they end."""

    def __init__(self) -> None:
        """Start without streams."""
        self._reading: set[asyncio.Task[None]] = set()

    def read(self, call: Any, timeout_s: float) -> AsyncStreamReader:
        """Start reading a call."""
        reader = AsyncStreamReader(call, timeout_s)
        self._reading.add(reader.reading)
        reader.reading.add_done_callback(self._reading.discard)
        return reader

    async def wait(self) -> None:
        """Wait until all calls have ended, including abandoned ones."""
        if self._reading:
            # Not `gather`: if this is cancelled, reading must continue.
            await asyncio.wait(self._reading)


class OpenCalls:
    """The open unary calls of an asynchronous channel, which must not be closed before they end."""

    def __init__(self) -> None:
        """Start without calls."""
        self._open: dict[Any, asyncio.Future[None]] = {}
        self._all_ended = asyncio.Event()

    async def answer(self, call: Any, timeout_s: float, takes_long: bool) -> Any:
        """Wait for the answer of a call of `grpc.aio`.

        Args:
            call: a call that has just begun.
            timeout_s: how long the server may take.
            takes_long: whether to cancel the call if this task is cancelled.

        Raises:
            DeadlineExceeded: the answer did not arrive in time.
            grpc.RpcError: the call failed.
        """
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        self._all_ended.clear()
        self._open[call] = ended  # gRPC cancels a call without references
        call.add_done_callback(self._end)
        timer = loop.call_later(timeout_s + _ANSWER_GRACE_S, _expire, ended)
        try:
            # Awaiting the call itself would cancel it with this task; a separate task costs more.
            await ended
        except asyncio.CancelledError:
            if takes_long:
                call.cancel()
            raise
        finally:
            timer.cancel()
        return await call

    async def wait(self) -> None:
        """Wait until all calls have ended, including abandoned ones."""
        while self._open:
            await self._all_ended.wait()

    def _end(self, call: Any) -> None:
        ended = self._open.pop(call)
        if not self._open:
            self._all_ended.set()
        if not ended.done():  # it is done if the caller was cancelled
            ended.set_result(None)


def _expire(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_exception(DeadlineExceeded(_TOO_LATE))

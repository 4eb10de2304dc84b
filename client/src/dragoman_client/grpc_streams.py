"""Calls that end so that the server outlives a client that leaves early.

A call that is cancelled can end Triton 24.10: by signal 11, or by a heap that is damaged. A stream
can at any time, before its first message and after it; so a stream is never cancelled. A call with
one answer can if it is cancelled while it is being answered; so only one that takes long is
cancelled, for which that moment is hit once in some hundred thousand times. Whoever leaves a call
is not kept waiting; it is read to its end in the background, which the server's deadline bounds.
gRPC's own deadline is a cancellation too, so it comes well after the server's.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from dragoman_client.errors import DeadlineExceeded

DEADLINE_GRACE_S = 3.0
"""How much later than the server's deadline gRPC's own is; a hung server is waited for so long."""
_ANSWER_GRACE_S = 0.1
"""For the server's answer that its deadline has passed to arrive."""
_LOOK_S = 0.05
_TOO_LATE = "the answer did not come to its end in time"
_End = Exception | None
"""How a stream ended: by an error of gRPC's, or by itself."""


class StreamReader:
    """Reads a call to its end, in a thread.

    The thread is no daemon: a process that ends breaks its connections, which cancels too.
    """

    def __init__(self, call: Any, timeout_s: float, close: Callable[[], None]) -> None:
        """Begin to read.

        Args:
            call: of `grpc`.
            timeout_s: how long `next` waits, for all messages together.
            close: called when the call has ended.
        """
        self._call, self._close = call, close
        self._deadline_s = time.monotonic() + timeout_s
        self._came: queue.SimpleQueue[tuple[Any, _End]] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="dragoman-stream").start()

    async def next(self) -> Any:
        """The next message; None at the end. It blocks: see `blocking`.

        Raises:
            DeadlineExceeded: it did not come in time.
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
        except Exception as error:  # whatever it was, the reader must hear of it
            end = error
        finally:
            self._came.put((None, end))
            self._close()


class AsyncStreamReader:
    """Reads a call of `grpc.aio` to its end, in a task; see `StreamReader`."""

    def __init__(self, call: Any, timeout_s: float) -> None:
        """Begin to read, in the running event loop."""
        self._call = call
        self._deadline_s = time.monotonic() + timeout_s
        self._came: asyncio.Queue[tuple[Any, _End]] = asyncio.Queue()
        self.reading = asyncio.create_task(self._read())
        """Ends with the call; must not be cancelled, which would cancel the call."""

    async def next(self) -> Any:
        """See `StreamReader`."""
        try:
            left_s = self._deadline_s - time.monotonic()
            # `wait_for` of Python 3.11 ignores a cancellation that comes with the message.
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
        except Exception as error:  # whatever it was, the reader must hear of it
            end = error
        finally:
            self._came.put_nowait((None, end))


class OpenStreams:
    """The streams of an asynchronous channel, which must outlive them."""

    def __init__(self) -> None:
        """None yet."""
        self._reading: set[asyncio.Task[None]] = set()

    def read(self, call: Any, timeout_s: float) -> AsyncStreamReader:
        """Begin to read a call."""
        reader = AsyncStreamReader(call, timeout_s)
        self._reading.add(reader.reading)
        reader.reading.add_done_callback(self._reading.discard)
        return reader

    async def wait(self) -> None:
        """Until all calls have ended, those that were left early among them."""
        if self._reading:
            # Not `gather`: if this is cancelled, the reading must go on.
            await asyncio.wait(self._reading)


class OpenCalls:
    """The calls with one answer of an asynchronous channel, which must outlive them."""

    def __init__(self) -> None:
        """None yet."""
        self._open: dict[Any, asyncio.Future[None]] = {}

    async def answer(self, call: Any, timeout_s: float, takes_long: bool) -> Any:
        """The answer of a call of `grpc.aio`.

        Args:
            call: that has just begun.
            timeout_s: how long the server may take.
            takes_long: whether it is cancelled when nobody waits for it any more.

        Raises:
            DeadlineExceeded: it did not come in time.
            grpc.RpcError: the call failed.
        """
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        self._open[call] = ended  # a call that nobody holds is cancelled
        call.add_done_callback(self._end)
        timer = loop.call_later(timeout_s + _ANSWER_GRACE_S, _expire, ended)
        try:
            # Not the call itself, which would be cancelled with this task; nor a task of its own,
            # which costs more.
            await ended
        except asyncio.CancelledError:
            if takes_long:
                call.cancel()
            raise
        finally:
            timer.cancel()
        return await call

    async def wait(self) -> None:
        """Until all calls have ended, those that were left early among them."""
        while self._open:
            await asyncio.sleep(_LOOK_S)

    def _end(self, call: Any) -> None:
        ended = self._open.pop(call)
        if not ended.done():  # as it is if nobody waits for it any more
            ended.set_result(None)


def _expire(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_exception(DeadlineExceeded(_TOO_LATE))

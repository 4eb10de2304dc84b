"""Server-sent events, which end when the client disconnects.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dragoman_gateway.core.errors import GatewayError, Internal, log_fault

_LOG = logging.getLogger(__name__)
KEEP_ALIVE_S: Final = 10.0
"""Time between keep-alive comments; proxies close idle connections after about a minute."""
_KEEP_ALIVE = b": keep-alive\n\n"
_AHEAD = 16
"""Maximum number of events that wait for a slow reader; then the generator waits too."""
_HEADERS: Final = {
    "cache-control": "no-store",
    "content-type": "text/event-stream; charset=utf-8",
    "x-accel-buffering": "no",  # NGINX does not buffer events
}


class EventResponse(Response):
    """Events from a generator, which is closed when the client disconnects.

    An error before the first event is a normal answer with its status. After the first event, or
    after a keep-alive comment, an error is an event `error`.
    """

    def __init__(
        self,
        values: AsyncGenerator[Any, None],
        refuse: Callable[[GatewayError], Response],
        refusal: Callable[[GatewayError], Any],
        keep_alive_s: float = KEEP_ALIVE_S,
    ) -> None:
        """Store the generator.

        Args:
            values: the events' values, which are written as JSON.
            refuse: makes an answer from an error.
            refusal: makes an event's value from an error.
            keep_alive_s: time between keep-alive comments.
        """
        super().__init__(status_code=200, headers=_HEADERS)
        del self.headers["content-length"]  # of an empty body
        self._values, self._refuse, self._refusal = values, refuse, refusal
        self._keep_alive_s = keep_alive_s
        self._queue: asyncio.Queue[Any] = asyncio.Queue(_AHEAD)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until they end or the client disconnects."""
        tasks = {
            asyncio.create_task(self._produce()),
            sending := asyncio.create_task(self._send(scope, receive, send)),
            leaving := asyncio.create_task(_left(receive)),
        }
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if sending.done() and not sending.cancelled():
            sending.result()

    async def _produce(self) -> None:
        """Put values, then None, or an error, into the queue.

        Runs in a separate task, which closes the generator too: a timeout inside the generator
        belongs to the task that entered it.
        """
        try:
            async with contextlib.aclosing(self._values) as values:
                async for value in values:
                    await self._queue.put(value)
            await self._queue.put(None)
        except GatewayError as error:
            await self._queue.put(error)
        except Exception as error:
            log_fault(_LOG, "a stream failed", error)
            await self._queue.put(Internal("the stream failed: see the log"))

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        value = await self._next()
        if isinstance(value, GatewayError):
            response = self._refuse(value)
            return await response(scope, receive, send)
        head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(head)
        while value is not None:
            await send(
                {"type": "http.response.body", "body": self._event(value), "more_body": True}
            )
            value = None if isinstance(value, GatewayError) else await self._next()
        await send({"type": "http.response.body", "body": b""})

    async def _next(self) -> Any:
        """Returns the next value, or the keep-alive comment as bytes if there is none in time."""
        try:
            # Python 3.11's `wait_for` ignores a cancellation that arrives with the value.
            async with asyncio.timeout(self._keep_alive_s):
                return await self._queue.get()
        except TimeoutError:
            return _KEEP_ALIVE

    def _event(self, value: Any) -> bytes:
        if isinstance(value, bytes):
            return value
        if isinstance(value, GatewayError):
            return b"event: error\ndata: " + msgspec.json.encode(self._refusal(value)) + b"\n\n"
        return b"data: " + msgspec.json.encode(value) + b"\n\n"


async def _left(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass

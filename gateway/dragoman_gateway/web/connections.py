"""Limits of connections, below ASGI: of time, size and number."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

HEAD_BYTES = 64 << 10
STALLED_S = 60.0
"""For which a client may read nothing of an answer."""


class BoundedConnection(HttpToolsProtocol):
    """A connection that ends when its client is too slow, sends a huge head, or is one too many.

    uvicorn itself waits without end for a head and for a reader.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        most: int,
        head_s: float,
    ) -> None:
        """Begin, in the head of the first request.

        Args:
            config: of uvicorn, and so on.
            server_state: its connections.
            app_state: of the application.
            _loop: the event loop.
            most: connections at once.
            head_s: for a request's head to arrive, from its first byte or the start of the
                connection, and for the rest of a request that was refused early.
        """
        super().__init__(config, server_state, app_state, _loop)
        self._most, self._head_s = most, head_s
        self._in_head, self._head_bytes = True, 0
        self._is_head_long = False
        self._receiving: asyncio.TimerHandle | None = None
        self._sending: asyncio.TimerHandle | None = None
        self._unanswered: list[RequestResponseCycle] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        if len(self.connections) > self._most:
            self._refuse(503, f"more than {self._most} connections are open: try again soon")
            return
        self._expect_more()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._expect_no_more()
        self.resume_writing()
        self._end_answers()
        super().connection_lost(exc)

    def eof_received(self) -> None:
        """See `asyncio.Protocol`: the transport closes, and an answer could not be written."""
        self._end_answers()
        super().eof_received()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self.transport.is_closing():
            return
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_BYTES:
            self._refuse_long_head()
        elif self._in_head and self._head_bytes:
            self._expect_more()

    def on_headers_complete(self) -> None:
        """See httptools."""
        self._in_head, self._head_bytes = False, 0
        # A head that came whole, or behind another request, was not counted.
        if self._line_bytes() > HEAD_BYTES:
            self._is_head_long = True
            raise ValueError  # which ends the parsing: `send_400_response` is called
        self._expect_no_more()
        super().on_headers_complete()
        going = [one for one in self._unanswered if not one.response_complete]
        self._unanswered = [*going, self.cycle]

    def on_message_complete(self) -> None:
        """See httptools."""
        self._in_head = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Called by uvicorn at the end of an answer."""
        super().on_response_complete()
        if not self._in_head:
            self._expect_more()  # the rest of a request that was refused early

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP; called by uvicorn."""
        if self._is_head_long:
            self._refuse_long_head()
        else:
            self._refuse(400, "this is no HTTP request that is understood here")

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`: the client reads more slowly than the answer is made."""
        super().pause_writing()
        if self._sending is None:
            self._sending = self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None
        super().resume_writing()

    def _expect_more(self) -> None:
        if self._receiving is None:
            self._receiving = self.loop.call_later(self._head_s, self._end_wait)

    def _expect_no_more(self) -> None:
        if self._receiving is not None:
            self._receiving.cancel()
            self._receiving = None

    def _end_wait(self) -> None:
        self._receiving = None
        if self.cycle is None or self.cycle.response_complete:
            if self._head_bytes:
                self._refuse(
                    408, f"the head of the request did not arrive within {self._head_s:g} s"
                )
            else:
                self.transport.close()

    def _end_answers(self) -> bool:
        """Mark all requests in flight as disconnected; returns whether there are any.

        uvicorn marks only the last of several requests that came at once (pipelining).
        """
        going = [one for one in self._unanswered if not one.response_complete]
        for one in going:
            one.disconnected = True
            one.message_event.set()
        return bool(going)

    def _line_bytes(self) -> int:
        """Bytes of the head that was parsed: its lines, and the empty one at its end."""
        first = len(self.parser.get_method()) + len(self.url) + len("  HTTP/1.1\r\n\r\n")
        return first + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)

    def _refuse_long_head(self) -> None:
        self._refuse(431, f"the head of the request has more than {HEAD_BYTES:,} bytes")

    def _refuse(self, status: int, message: str) -> None:
        """Answer instead of the application, and close."""
        if self._end_answers():
            # An earlier request of this connection was being answered: nothing fits in between.
            self.transport.close()
            return
        code = {408: "slow_upload", 431: "too_large", 503: "unavailable"}.get(
            status, "invalid_input"
        )
        body = msgspec.json.encode({"error": {"code": code, "message": message}})
        head = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            "content-type: application/json",
            f"content-length: {len(body)}",
            "connection: close",
            *(["retry-after: 1"] if status == 503 else []),
        ]
        self.transport.write("\r\n".join((*head, "", "")).encode() + body)
        self.transport.close()

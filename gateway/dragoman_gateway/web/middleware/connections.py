"""Limits of connections below ASGI: time, size and number."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from http import HTTPStatus
from itertools import chain
from typing import Any

from httptools import HttpParserInvalidMethodError
from starlette.responses import Response
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from dragoman_gateway.access.access import network_of
from dragoman_gateway.access.shares import Budget
from dragoman_gateway.core.errors import (
    GatewayError,
    HeadTooLarge,
    InvalidInput,
    SlowUpload,
    Unavailable,
)
from dragoman_gateway.web.middleware.sockets import BoundedSocket, handshake_of

HEAD_BYTES = 64 << 10
STALLED_S = 60.0
"""How long a client may stop reading an answer."""
_RETRY_S = 1.0
_BEGIN_BYTES = 4096
_LINE = re.compile(rb"([A-Za-z][A-Za-z-]{0,19}) (/[^ ?\r\n]*+)[^ \r\n]*+[ \r\n]")

Refusal = Callable[[str, str, GatewayError | None], Response]
"""Makes an answer from the method and path of a request, and its error."""


class BoundedConnection(HttpToolsProtocol):
    """A connection with limits: slow clients, large heads and too many connections are refused.

    uvicorn itself has no timeout for the head of a request, or for a client that does not read.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        refusal: Refusal,
        has_socket: Callable[[str], bool],
        most: int,
        shares: Budget,
        is_proxy: Callable[[str], bool],
        head_s: float,
    ) -> None:
        """Start in the head of the first request.

        Args:
            config: uvicorn's configuration.
            server_state: uvicorn's state, with its connections.
            app_state: state of the application.
            _loop: the event loop.
            refusal: makes the answer to an unreadable request.
            has_socket: whether there is a WebSocket at a path.
            most: maximum number of connections.
            shares: counts the connections of each client.
            is_proxy: whether an address is a trusted proxy's, whose connections are those of many
                clients.
            head_s: timeout for the head of a request, from its first byte or the start of the
                connection, and for the rest of a request that was refused early.
        """
        super().__init__(config, server_state, app_state, _loop)
        self._refusal, self._has_socket = refusal, has_socket
        self._most, self._head_s = most, head_s
        self._shares, self._is_proxy = shares, is_proxy
        self._counted_client: str | None = None
        self._begin = b""
        self._in_head, self._head_bytes = True, 0
        self._is_head_long = False
        self._receiving: asyncio.TimerHandle | None = None
        self._sending: asyncio.TimerHandle | None = None
        self._unanswered: list[RequestResponseCycle] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        if len(self.connections) > self._most:
            message = f"more than {self._most} connections are open: try again soon"
            self._refuse(Unavailable(message, _RETRY_S))
            return
        address = self.client[0] if self.client else ""
        if not self._is_proxy(address):
            client = network_of(address)
            try:
                self._shares.hold(client)
            except GatewayError as error:
                self._refuse(error)
                return
            self._counted_client = client
        self._expect_more()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._expect_no_more()
        self.resume_writing()
        self._end_answers()
        self._let_go()
        super().connection_lost(exc)

    def eof_received(self) -> None:
        """See `asyncio.Protocol`; after this, the transport closes and no answer can be sent."""
        self._end_answers()
        super().eof_received()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self.transport.is_closing():
            return
        if self._in_head:
            if not self._head_bytes:
                self._begin = data[:_BEGIN_BYTES]
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_BYTES:
            self._refuse_long_head()
        elif self._in_head and self._head_bytes:
            self._expect_more()

    def on_headers_complete(self) -> None:
        """See httptools."""
        self._in_head, self._head_bytes = False, 0
        # A head that arrived completely, or after another request, was not counted.
        if self._line_bytes() > HEAD_BYTES:
            self._is_head_long = True
            raise ValueError  # ends the parsing, and `send_400_response` is called
        self._expect_no_more()
        super().on_headers_complete()
        if not (self.parser.should_upgrade() and self._should_upgrade()):
            going = [cycle for cycle in self._unanswered if not cycle.response_complete]
            self._unanswered = [*going, self.cycle]

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over; called by uvicorn."""
        self.resume_writing()
        self.connections.discard(self)
        socket = BoundedSocket(
            self.config,
            self.server_state,
            self.app_state,
            target=self.url.decode(),
            headers=self.headers,
            ended=self._let_go,
            stalled_s=STALLED_S,
        )
        socket.connection_made(self.transport)
        self.transport.set_protocol(socket)

    def on_message_complete(self) -> None:
        """See httptools."""
        self._in_head = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Handle the end of an answer; called by uvicorn."""
        super().on_response_complete()
        if not self._in_head:
            self._expect_more()  # the rest of a request that was refused early

    def send_400_response(self, _msg: str) -> None:
        """Refuse a request that is not HTTP; called by uvicorn."""
        if self._is_head_long:
            self._refuse_long_head()
        elif isinstance(sys.exc_info()[1], HttpParserInvalidMethodError):
            self._refuse(None)
        else:
            self._refuse(_not_http())

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`; the client reads more slowly than the answer is produced."""
        super().pause_writing()
        if self._sending is None:
            self._sending = self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None
        super().resume_writing()

    def _should_upgrade(self) -> bool:
        """Whether a request opens a WebSocket; all others are answered as usual, as HTTP allows."""
        path = self.url.partition(b"?")[0].decode("latin-1")
        is_possible = self.parser.get_method() == b"GET" and self._has_socket(path)
        is_free = all(cycle.response_complete for cycle in self._unanswered)
        is_plain = self.url.isascii() and all(map(bytes.isascii, handshake_of(self.headers)))
        return is_possible and is_free and is_plain and super()._should_upgrade()

    def _let_go(self) -> None:
        """Release the client's share of connections."""
        if self._counted_client is not None:
            self._shares.let_go(self._counted_client)
            self._counted_client = None

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
                    SlowUpload(f"the head of the request did not arrive within {self._head_s:g} s")
                )
            else:
                self.transport.close()

    def _end_answers(self) -> bool:
        """Mark all requests in flight as disconnected; returns whether there are any.

        With pipelining, uvicorn marks only the last of several requests.
        """
        going = [cycle for cycle in self._unanswered if not cycle.response_complete]
        for cycle in going:
            cycle.disconnected = True
            cycle.message_event.set()
        return bool(going)

    def _line_bytes(self) -> int:
        """Returns the size of the parsed head, including the empty line at its end."""
        first = len(self.parser.get_method()) + len(self.url) + len("  HTTP/1.1\r\n\r\n")
        between = len(": \r\n") * len(self.headers)
        return first + between + sum(map(len, chain.from_iterable(self.headers)))

    def _refuse_long_head(self) -> None:
        self._refuse(HeadTooLarge(f"the head of the request has more than {HEAD_BYTES:,} bytes"))

    def _refuse(self, error: GatewayError | None) -> None:
        """Answer instead of the application, and close; None: the HTTP method is unknown.

        Method and path are known if they are at the beginning of a packet.
        """
        if self._end_answers():
            # An earlier request is being answered; no other answer can be sent now.
            self.transport.close()
            return
        if (line := _LINE.match(self._begin)) is not None:
            method, path = (part.decode("latin-1") for part in line.groups())
        else:
            method, path, error = "GET", "/", error or _not_http()
        response = self._refusal(method, path, error)
        status = response.status_code
        head = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
        head += [name + b": " + value for name, value in response.raw_headers]
        head += [b"connection: close", b"", b""]
        self.transport.write(b"\r\n".join(head) + bytes(response.body))
        self.transport.close()


def _not_http() -> InvalidInput:
    return InvalidInput("this is not a valid HTTP request")

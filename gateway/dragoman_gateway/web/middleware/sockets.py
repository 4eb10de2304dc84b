"""WebSockets: the handshake, which is checked like a request, and limits of the connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState
from uvicorn.protocols.websockets.wsproto_impl import WSProtocol
from wsproto.events import BytesMessage, Ping, Request, TextMessage
from wsproto.utilities import LocalProtocolError

from dragoman_gateway.access.access import Access
from dragoman_gateway.core.errors import Forbidden, GatewayError, Internal, NotFound, log_fault
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.web.endpoints import ProtocolPackage
from dragoman_gateway.web.middleware.origins import Origins
from dragoman_gateway.web.requests import GatewayRequest

MESSAGE_BYTES = 128 << 10
Headers = list[tuple[bytes, bytes]]
SocketHandler = Callable[[WebSocket], Awaitable[None]]
_LOG = logging.getLogger(__name__)
_FAULT = 1011
_READ_BYTES = 4096
"""Bytes that are read at once: frames may be tiny."""
_MOST_PINGS = 100
"""Pings of a client between two messages."""
_HANDSHAKE = frozenset((b"connection", b"upgrade", b"sec-websocket-key", b"sec-websocket-version"))


class Sockets:
    """An ASGI application for WebSockets; a refused handshake has an answer of HTTP."""

    def __init__(
        self,
        protocol: ProtocolPackage,
        handlers: Mapping[str, SocketHandler],
        access: Access,
        settings: GatewaySettings,
    ) -> None:
        """Store the parts.

        Args:
            protocol: the protocol of all handlers.
            handlers: by path; each accepts the handshake and answers messages.
            access: checks keys.
            settings: settings with the allowed origins.
        """
        self._protocol, self._handlers, self._access = protocol, handlers, access
        self._origins = Origins(settings)

    def have(self, path: str) -> bool:
        """Whether there is a WebSocket at a path, which may have a prefix."""
        return path.endswith(tuple(self._handlers))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a handshake, and the messages of its connection."""
        request = GatewayRequest({**scope, "type": "http"})  # Starlette's accepts no other type
        socket = WebSocket(scope, receive, send)
        scope["protocol"] = self._protocol.name
        try:
            handle = self._checked(scope)
            if (key := self._protocol.key_of(request)) is not None:
                await self._access.caller(key, self._protocol.name, request.address)
            with suppress(WebSocketDisconnect):
                await handle(socket)
            return
        except GatewayError as error:
            refusal = error
        except Exception as error:
            log_fault(_LOG, f"WEBSOCKET {scope.get('endpoint_name', '?')}", error)
            refusal = Internal("the request failed: see the log")
        if socket.application_state is WebSocketState.CONNECTING:
            await self._protocol.refuse(request, refusal)(scope, receive, send)
        else:
            with suppress(WebSocketDisconnect):
                await socket.close(_FAULT)

    def _checked(self, scope: Scope) -> SocketHandler:
        """Returns the handler of a handshake."""
        if (refusal := scope.get("refusal")) is not None:
            assert isinstance(refusal, GatewayError)
            raise refusal
        if (handle := self._handlers.get(scope["path"])) is None:
            raise NotFound(f"there is no WebSocket at {scope['path'][:200]}")
        scope["endpoint_name"] = scope["path"]
        # Browsers let any page open a WebSocket, and CORS does not apply to it.
        if self._origins.is_foreign(dict(scope["headers"])):
            raise Forbidden(
                "a web page of another origin may not call this: the operator allows its origin "
                "with --allowed-origins"
            )
        return handle


def handshake_of(headers: Headers) -> list[bytes]:
    """Returns the lines of the headers that belong to the handshake itself."""
    return [name + b": " + value for name, value in headers if name in _HANDSHAKE]


class BoundedSocket(WSProtocol):
    """The connection of a WebSocket, which is closed if its client does not read."""

    def __init__(
        self,
        *uvicorn: Any,
        target: str,
        headers: Headers,
        ended: Callable[[], None],
        stalled_s: float,
    ) -> None:
        """Take over a connection after the head of its handshake.

        Args:
            uvicorn: arguments of uvicorn's class.
            target: path and query.
            headers: headers of the handshake.
            ended: called when the connection has ended.
            stalled_s: how long the client may stop reading.
        """
        super().__init__(*uvicorn)
        self._target, self._headers = target, headers
        self._ended, self._stalled_s = ended, stalled_s
        self._sending: asyncio.TimerHandle | None = None
        self._pings = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`.

        wsproto reads only its own headers: it raises other errors for some values of others, and
        decodes the host.
        """
        super().connection_made(transport)
        head = [b"GET / HTTP/1.1", b"host: localhost", *handshake_of(self._headers), b"", b""]
        self.data_received(b"\r\n".join(head))

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        for begin in range(0, len(data), _READ_BYTES):
            if not self.transport.is_closing():
                super().data_received(data[begin : begin + _READ_BYTES])
        if self.transport.is_closing():
            self._abort_later()

    def handle_message(self, event: TextMessage | BytesMessage) -> None:
        """Take a part of a message; called by uvicorn."""
        self._pings = 0
        super().handle_message(event)

    def handle_ping(self, event: Ping) -> None:
        """Answer a ping, if the client reads; called by uvicorn."""
        self._pings += 1
        if self._pings > _MOST_PINGS:
            self.transport.abort()
        elif self.writable.is_set():
            super().handle_ping(event)

    def shutdown(self) -> None:
        """Close the connection at the end of the server."""
        with suppress(LocalProtocolError):  # its client has closed it already
            super().shutdown()
        self.transport.close()
        self._abort_later()

    def handle_connect(self, event: Request) -> None:
        """Start the application; called by uvicorn."""
        super().handle_connect(replace(event, target=self._target))
        self.scope["headers"] = self._headers

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self.resume_writing()
        self._ended()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        super().pause_writing()
        self._abort_later()

    def _abort_later(self) -> None:
        """End the connection if its client does not read the rest in time."""
        if self._sending is None:
            self._sending = self.loop.call_later(self._stalled_s, self.transport.abort)

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None
        super().resume_writing()

"""Connections of WebSockets, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from dragoman_gateway.access.shares import Budget
from dragoman_gateway.web.middleware import connections
from dragoman_gateway.web.middleware.connections import BoundedConnection
from dragoman_gateway.web.middleware.sockets import MESSAGE_BYTES, BoundedSocket
from starlette.responses import Response
from uvicorn.config import Config
from uvicorn.server import ServerState

HEAD = (
    b"GET /socket?a=b HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    b"Sec-WebSocket-Version: 13\r\n\r\n"
)
HELLO = b"\x81\x85\x00\x00\x00\x00hello"
"""A masked message of text."""


class Server:
    """A server whose application returns each message of a WebSocket; it answers HTTP too."""

    def __init__(self) -> None:
        self.shares = Budget("connections", 10, 2)
        self.scopes: list[Any] = []
        self.ended = asyncio.Event()
        self.floods = False
        self._config = Config(
            self._answer,
            interface="asgi3",
            ws=BoundedSocket,
            ws_max_size=MESSAGE_BYTES,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
        )
        self._config.load()
        self.state = ServerState()

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection to it."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self._connection, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        yield reader, writer
        writer.close()
        server.close()

    def _connection(self) -> BoundedConnection:
        return BoundedConnection(
            self._config,
            self.state,
            {},
            refusal=lambda *_: Response("refused", 400),
            has_socket=lambda path: path == "/socket",
            most=10,
            shares=self.shares,
            is_proxy=lambda _: False,
            head_s=10,
        )

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        if scope["type"] == "http":
            return await Response("plain")(scope, receive, send)
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept"})
        try:
            while (message := await receive())["type"] == "websocket.receive" or self.floods:
                while self.floods:
                    await send({"type": "websocket.send", "bytes": bytes(1 << 20)})
                await send({"type": "websocket.send", "text": message["text"]})
        finally:
            self.ended.set()


@asynccontextmanager
async def opened() -> AsyncGenerator[tuple[Server, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A server with an open WebSocket."""
    server = Server()
    async with server.client() as (reader, writer):
        writer.write(HEAD)
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        yield server, reader, writer


async def test_a_websocket_uses_the_share_of_its_client_until_it_ends() -> None:
    async with opened() as (server, reader, writer):
        for _ in range(2):
            writer.write(HELLO)
            assert await reader.readexactly(7) == b"\x81\x05hello"
        assert server.shares.held == 1
    await server.ended.wait()
    assert server.shares.held == 0


async def test_a_client_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STALLED_S", 0.1)
    async with opened() as (server, _, writer):
        server.floods = True
        writer.write(HELLO)
        await server.ended.wait()
        assert server.shares.held == 0


async def test_a_message_that_is_too_large_ends_the_connection() -> None:
    async with opened() as (server, reader, writer):
        size = MESSAGE_BYTES + 1
        writer.write(b"\x81\xff" + size.to_bytes(8) + bytes(4) + b"a" * size)
        await server.ended.wait()
        assert (await reader.read())[2:4] == (1009).to_bytes(2)


async def test_a_flood_of_pings_ends_the_connection() -> None:
    async with opened() as (server, reader, writer):
        for _ in range(3):
            writer.write(b"\x89\x80\0\0\0\0" * 60 + HELLO)
            assert await reader.readexactly(60 * 2 + 7)
        writer.write(b"\x89\x80\0\0\0\0" * 10_000)
        await server.ended.wait()
    assert server.shares.held == 0


@pytest.mark.parametrize("last", [b"\x88\x82\0\0\0\0\x03\xe8", b"\xff\xff\xff"])
async def test_a_connection_that_its_client_closed_can_be_shut_down(last: bytes) -> None:
    async with opened() as (server, _, _):
        (connection,) = server.state.connections
        connection.data_received(last)
        connection.shutdown()
        await server.ended.wait()


@pytest.mark.parametrize("frame", [b"\xff\xff\xff", b"\x81\x01a", b"\x81\x81\0\0\0\0\xff"])
async def test_a_damaged_frame_ends_the_connection(frame: bytes) -> None:
    async with opened() as (server, reader, writer):
        writer.write(frame)
        await server.ended.wait()
        assert len(await reader.read()) < 20  # nothing, or a message that closes
    assert server.shares.held == 0


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        (b"Version: 13", b"Version: 12", 426),
        (b"Sec-WebSocket-Key", b"X", 400),
        (b"Key: d", b"Key: \xff", 200),  # the rest are usual requests: HTTP allows that
        (b"/socket", b"/other", 200),
        (b"GET", b"POST", 200),
        (b"Upgrade: websocket", b"Upgrade: h2c", 200),
        (b"GET /socket", b"GET / HTTP/1.1\r\n\r\nGET /socket", 200),
    ],
)
async def test_a_wrong_handshake_opens_nothing(old: bytes, new: bytes, status: int) -> None:
    server = Server()
    async with server.client() as (reader, writer):
        writer.write(HEAD.replace(old, new))
        assert b" %d " % status in await reader.readline()
    assert all(scope["type"] == "http" for scope in server.scopes)


@pytest.mark.parametrize("host", [b"xn--mller-kva.de", b"a..b", b"\xff", b"a" * 100])
async def test_an_application_sees_the_headers_of_the_handshake(host: bytes) -> None:
    server = Server()
    async with server.client() as (reader, writer):
        writer.write(
            HEAD.replace(b"localhost", host).replace(b"\r\n\r\n", b"\r\nX-A: \xe4\r\n\r\n")
        )
        assert b" 101 " in await reader.readline()
        (scope,) = server.scopes
        assert (scope["path"], scope["query_string"]) == ("/socket", b"a=b")
        assert scope["headers"][0] == (b"host", host)
        assert scope["headers"][-1] == (b"x-a", b"\xe4")

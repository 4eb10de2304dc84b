"""Connections whose client reads the response slowly or not at all, over real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
from dragoman_gateway.access.shares import Budget
from dragoman_gateway.web.middleware import connections
from dragoman_gateway.web.middleware.connections import BoundedConnection
from starlette.responses import Response
from uvicorn.config import Config
from uvicorn.server import ServerState

from tests.timing import fastest_s

_BODY = bytes(8 << 20)
"""More than the buffers of a connection."""
_SHARES = Budget("connections", 10, 2)


async def _answer(_scope: Any, _receive: Any, send: Callable[[Any], Any]) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for begin in range(0, len(_BODY), 1 << 16):
        part = _BODY[begin : begin + (1 << 16)]
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body"})


def _refuse(*_: object) -> Response:
    pytest.fail("the request was refused")


def _connection(config: Config, state: ServerState, refusal: Any) -> BoundedConnection:
    """A connection, of which each client may have two; 10.9.9.9 is a proxy."""
    return BoundedConnection(
        config,
        state,
        {},
        refusal=refusal,
        has_socket=lambda path: path == "/socket",
        most=10,
        shares=_SHARES,
        is_proxy=lambda address: address == "10.9.9.9",
        head_s=10,
    )


def _transport(address: str) -> Mock:
    transport = Mock(spec=asyncio.Transport)
    transport.is_closing.return_value = False
    transport.get_extra_info.side_effect = lambda name: {"peername": (address, 1)}.get(name)
    return transport


async def received(pause_s: float) -> int:
    """The bytes that a client gets that pauses before it reads, and in the middle of reading."""
    config = Config(_answer, lifespan="off", log_config=None)
    config.load()
    state, loop = ServerState(), asyncio.get_running_loop()

    def connection() -> BoundedConnection:
        return _connection(config, state, _refuse)

    server = await loop.create_server(connection, "127.0.0.1", 0)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        await loop.sock_connect(client, server.sockets[0].getsockname())
        await loop.sock_sendall(client, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        size = 0
        for most in (len(_BODY) // 2, 2 * len(_BODY)):
            await asyncio.sleep(pause_s)
            try:
                while size < most and (part := await loop.sock_recv(client, 1 << 16)):
                    size += len(part)
            except ConnectionError:
                break
    server.close()
    return size


async def test_a_client_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STALLED_S", 1.0)
    assert await received(2.0) < len(_BODY)


async def test_a_client_that_pauses_briefly_gets_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "STALLED_S", 10.0)
    assert await received(0.5) > len(_BODY)


@pytest.mark.parametrize("head", ["GET /%s\x01\x01", "FOO /%s HTTP/1.1\r\n\r\n"])
async def test_refusing_an_unreadable_request_takes_time_in_proportion_to_it(head: str) -> None:
    """The event loop does it, before any key is known."""

    async def refusal_s(letters: int) -> float:
        config = Config(_answer, lifespan="off", log_config=None)
        config.load()
        received = (head % ("a" * letters)).encode()
        statuses = []

        def refuse(*_: object) -> Response:
            statuses.append(400)
            return Response("refused", 400)

        def send() -> None:
            connection = _connection(config, ServerState(), refuse)
            connection.connection_made(_transport("10.0.0.1"))
            connection.data_received(received)
            connection.connection_lost(None)

        taken_s = fastest_s(send)
        assert len(statuses) == 5
        return taken_s

    assert await refusal_s(7000) < 4 * await refusal_s(500)


async def test_one_client_has_a_share_of_the_connections() -> None:
    """Addresses of one IPv6 network are one client; a trusted proxy's are not its own."""

    async def refused(addresses: list[str]) -> list[str]:
        config, state = Config(_answer, lifespan="off", log_config=None), ServerState()
        config.load()
        above: list[str] = []
        for _ in range(2):  # a second time, when all of the first have ended
            open_connections = []
            above.clear()
            for address in addresses:

                def refuse(*_: object, address: str = address) -> Response:
                    above.append(address)
                    return Response("refused", 429)

                connection = _connection(config, state, refuse)
                connection.connection_made(_transport(address))
                open_connections.append(connection)
            for connection in open_connections:
                connection.connection_lost(None)
        return above

    addresses = [*3 * ["10.0.0.1"], "10.0.0.2", "fe80::1", "fe80::2", "fe80::3", *3 * ["10.9.9.9"]]
    assert await refused(addresses) == ["10.0.0.1", "fe80::3"]
    assert not _SHARES.held

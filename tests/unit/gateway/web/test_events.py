"""Server-sent events without a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from dragoman_gateway.core.errors import Unavailable
from dragoman_gateway.web.events import EventResponse
from starlette.responses import Response

from tests.unit.gateway.texts.test_translations import until

KEEP_ALIVE_S = 0.02


class Client:
    """Receives a response; disconnects when `left` is set."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.status = 0
        self.body = b""

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        self.body += message.get("body", b"")

    async def ask(self, values: AsyncGenerator[Any, None]) -> dict[str, Any]:
        response = EventResponse(
            values,
            lambda error: Response(str(error), error.status),
            lambda error: {"code": error.code},
            KEEP_ALIVE_S,
        )
        scope: dict[str, Any] = {"type": "http"}
        await response(scope, self.receive, self.send)
        return scope


async def counting(*values: Any, pause_s: float = 0.0) -> AsyncGenerator[Any, None]:
    for value in values:
        await asyncio.sleep(pause_s)
        if isinstance(value, Exception):
            raise value
        yield value


@pytest.mark.parametrize(
    ("values", "status", "body"),
    [
        ([{"a": 1}, {"a": 2}], 200, b'data: {"a":1}\n\ndata: {"a":2}\n\n'),
        ([Unavailable("busy")], 503, b"busy"),
        (
            [{"a": 1}, Unavailable("busy")],
            200,
            b'data: {"a":1}\n\nevent: error\ndata: {"code":"unavailable"}\n\n',
        ),
        (
            [{"a": 1}, RuntimeError("a text")],
            200,
            b'data: {"a":1}\n\nevent: error\ndata: {"code":"internal"}\n\n',
        ),
    ],
)
async def test_values_and_errors_are_events_except_for_an_immediate_error(
    values: list[Any], status: int, body: bytes
) -> None:
    client = Client()
    await client.ask(counting(*values))
    assert (client.status, client.body) == (status, body)


async def test_a_slow_stream_is_kept_alive() -> None:
    client = Client()
    await client.ask(counting({"a": 1}, {"a": 2}, pause_s=3 * KEEP_ALIVE_S))
    assert client.body.startswith(b": keep-alive\n\n")
    assert client.body.endswith(b'data: {"a":2}\n\n')
    assert client.body.count(b": keep-alive") >= 3


async def test_a_client_that_disconnects_closes_the_stream() -> None:
    closed = asyncio.Event()

    async def endless() -> AsyncGenerator[Any, None]:
        try:
            yield {"a": 1}
            await asyncio.Event().wait()
        finally:
            closed.set()

    client = Client()
    asking = asyncio.create_task(client.ask(endless()))
    await until(lambda: bool(client.body))
    client.left.set()
    await asyncio.wait_for(asking, 5)
    assert closed.is_set()


async def test_a_slow_reader_slows_the_stream_down() -> None:
    made = 0

    async def many() -> AsyncGenerator[Any, None]:
        nonlocal made
        for made in range(1000):
            yield made

    reading = asyncio.Event()

    class Slow(Client):
        async def send(self, message: Any) -> None:
            await reading.wait()
            await super().send(message)

    client = Slow()
    asking = asyncio.create_task(client.ask(many()))
    await asyncio.sleep(0.05)
    assert made < 50
    reading.set()
    await asking
    assert client.body.count(b"data:") == 1000


async def test_a_client_that_disconnects_just_as_an_event_arrives() -> None:
    """The event must not be mistaken for the cancellation of its waiting task."""
    client = Client()

    async def values() -> AsyncGenerator[Any, None]:
        await client.left.wait()
        yield 1
        await asyncio.Event().wait()

    answering = asyncio.create_task(client.ask(values()))
    await asyncio.sleep(KEEP_ALIVE_S / 2)
    client.left.set()
    async with asyncio.timeout(10 * KEEP_ALIVE_S):
        await answering

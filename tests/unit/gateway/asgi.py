"""The gateway's application without a network, with a stand-in for Triton."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar
from urllib.parse import urlencode

import pytest
from dragoman_client.testing import FakeServer, translated
from dragoman_gateway.access.keys import add_key
from dragoman_gateway.application import GatewayApplication
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.rpc.rpc_server import RpcServer
from dragoman_gateway.shared.gateway import Gateway

from tests.exchanges import Answer

_T = TypeVar("_T")


class Application:
    """Calls the application; use it as a context."""

    def __init__(self, translate: Callable[[str], str] = translated, **settings: Any) -> None:
        """Prepare it: the translation of each text, and settings."""
        self._server = FakeServer(translate)
        self._settings = GatewaySettings(
            triton=self._server.grpc_url, triton_http=self._server.http_url, **settings
        )
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        """Start."""
        self.gateway = Gateway(self._settings)
        self._application = GatewayApplication(self.gateway)
        self._runner.run(self.gateway.__aenter__())
        return self

    def __exit__(self, *error: object) -> None:
        """Stop."""
        self._runner.run(self.gateway.__aexit__(*error))
        self._runner.close()
        self._server.close()

    @property
    def requests(self) -> list[Any]:
        """The requests that the stand-in for Triton received."""
        return [request for request in self._server.requests if request.model != "info"]

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in the event loop of the application."""
        return self._runner.run(work)

    @asynccontextmanager
    async def serving(self, name: str, service: Any) -> AsyncIterator[int]:
        """Serve a protocol over gRPC; the value is its port."""
        server = RpcServer(self.gateway, name, service)
        await server.open()
        try:
            yield server.port
        finally:
            await server.close(0)

    def new_key(self, **how: Any) -> str:
        """A new key; see `add_key`."""
        _, secret = self.run(self.gateway.store.write(lambda db: add_key(db, "", **how)))
        return secret

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        """Post an object as JSON."""
        return self.send("POST", path, body, **headers)

    def form(self, path: str, fields: Any, method: str = "POST", **headers: str) -> Answer:
        """Send a form."""
        kind = {"content-type": "application/x-www-form-urlencoded"}
        return self.call(method, path, urlencode(fields, doseq=True).encode(), kind | headers)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send an object as JSON; None: no body."""
        if body is None:
            return self.call(method, path, b"", headers)
        kind = {"content-type": "application/json"}
        return self.call(method, path, json.dumps(body).encode(), kind | headers)

    def call(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request; the path may have a query."""
        return self._runner.run(self._call(method, path, body, headers or {}))

    def leave(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        after_s: float = 0.0,
    ) -> None:
        """Send a request, and disconnect before the response."""

        async def send(_message: MutableMapping[str, Any]) -> None:
            raise AssertionError("nobody is there to be answered")

        async def left() -> None:
            await asyncio.sleep(after_s)

        self._runner.run(self._send(method, path, body, headers or {}, left, send))

    def converse(
        self,
        *messages: Any,
        path: str = "/api/v1/live",
        headers: Mapping[str, str] | None = None,
        address: str = "127.0.0.1",
    ) -> list[MutableMapping[str, Any]]:
        """Send messages over a WebSocket, then close it.

        Args:
            messages: texts, bytes, or objects that are sent as JSON.
            path: where to.
            headers: of the handshake.
            address: of the client.

        Returns:
            ASGI's messages of the application.
        """
        scope = {**self.scope("GET", path, headers or {}, address), "type": "websocket"}
        del scope["method"]
        waiting: list[MutableMapping[str, Any]] = [{"type": "websocket.connect"}]
        for message in messages:
            kind = "bytes" if isinstance(message, bytes) else "text"
            sent = message if isinstance(message, bytes | str) else json.dumps(message)
            waiting.append({"type": "websocket.receive", kind: sent})
        waiting.append({"type": "websocket.disconnect", "code": 1000})
        answers: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return waiting.pop(0)

        async def send(message: MutableMapping[str, Any]) -> None:
            answers.append(message)

        self.run(self._application(scope, receive, send))
        return answers

    async def _call(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> Answer:
        left = asyncio.Event()
        status, answered, parts = 0, dict[str, str](), list[bytes]()

        async def send(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                answered.update(
                    (name.decode().lower(), value.decode()) for name, value in message["headers"]
                )
            elif message["type"] == "http.response.body":
                parts.append(message.get("body", b""))

        await self._send(method, path, body, headers, left.wait, send)
        left.set()
        return Answer(status, answered, b"".join(parts))

    async def _send(
        self,
        method: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        leave: Callable[[], Awaitable[object]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Send a request whose client disconnects when `leave` ends."""
        scope = self.scope(method, path, {**headers, "content-length": str(len(body))})
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> MutableMapping[str, Any]:
            if messages:
                return messages.pop()
            await leave()
            return {"type": "http.disconnect"}

        await self._application(scope, receive, send)

    def scope(
        self, method: str, path: str, headers: Mapping[str, str], address: str = "127.0.0.1"
    ) -> MutableMapping[str, Any]:
        """Returns the scope of a request from an address."""
        path, _, query = path.partition("?")
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [
                *([] if "host" in headers else [(b"host", b"localhost:5000")]),
                *(
                    (name.lower().encode(), value.encode("latin-1"))
                    for name, value in headers.items()
                ),
            ],
            "client": (address, 40000),
            "server": ("127.0.0.1", 5000),
        }


def tracebacks(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Log records with a traceback, except asyncio's: they can come from a task of another test."""
    return [record for record in caplog.records if record.exc_info and record.name != "asyncio"]

"""Endpoints of protocols, and the ASGI application that calls them."""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from traceback import format_tb
from typing import Protocol

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import Receive, Scope, Send

from dragoman_gateway.core.errors import GatewayError, Internal, NotFound, WrongMethod
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.web.requests import BoundedBody, GatewayRequest

Handler = Callable[[GatewayRequest], Awaitable[Response]]
_LOG = logging.getLogger(__name__)
_CLIENT_LEFT = 499
"""NGINX's status, for the log, of a request whose client has gone."""


@dataclass(frozen=True)
class Endpoint:
    """A path with a method.

    Attributes:
        method: of HTTP.
        path: with parameters in braces, as Starlette has them; they are in `request.path_params`.
        handle: answers a request.
        reads_body: whether the handler reads the body by itself, as it arrives: for files.
    """

    method: str
    path: str
    handle: Handler
    reads_body: bool = False


class ProtocolPackage(Protocol):
    """What a protocol consists of."""

    @property
    def name(self) -> str:
        """For metrics and logs."""
        ...

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        """Its paths."""
        ...

    def is_for(self, path: str) -> bool:
        """Whether a path belongs to it, so that a wrong one is refused in its shape."""
        ...

    def refuse(self, request: GatewayRequest, error: GatewayError) -> Response:
        """An error in its shape."""
        ...


class Dispatcher:
    """An ASGI application: finds the endpoint, reads the body, answers errors.

    A client that hangs up cancels the handler of its request.
    """

    def __init__(self, protocols: Sequence[ProtocolPackage], settings: GatewaySettings) -> None:
        """Begin.

        Args:
            protocols: in the order in which they are asked whether a path is theirs; the last one
                takes every path.
            settings: bounds of bodies.
        """
        self._protocols, self._settings = protocols, settings
        self._exact: dict[str, dict[str, tuple[ProtocolPackage, Endpoint]]] = {}
        self._patterns: list[tuple[re.Pattern[str], ProtocolPackage, Endpoint]] = []
        for protocol in protocols:
            for endpoint in protocol.endpoints:
                if "{" in endpoint.path:
                    pattern, _, _ = compile_path(endpoint.path)
                    self._patterns.append((pattern, protocol, endpoint))
                else:
                    methods = self._exact.setdefault(endpoint.path, {})
                    methods[endpoint.method] = (protocol, endpoint)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        path = scope["path"]
        protocol = next(one for one in self._protocols if one.is_for(path))
        request = GatewayRequest(scope, receive, send)
        try:
            if (refusal := scope.get("refusal")) is not None:
                raise refusal
            protocol, endpoint = self._find(path, scope)
            scope["endpoint_name"] = endpoint.path
            settings = self._settings
            most_bytes = settings.file_bytes if endpoint.reads_body else settings.body_bytes
            bounded = BoundedBody(receive, most_bytes, settings.upload_timeout_s)
            request = GatewayRequest(scope, bounded, send)
            response = await self._answer(request, endpoint)
        except ClientDisconnect:
            scope["status"] = _CLIENT_LEFT
            return
        except GatewayError as error:
            response = protocol.refuse(request, error)
            if error.retry_after_s is not None:
                after_s = str(max(1, math.ceil(error.retry_after_s)))
                response.headers.setdefault("retry-after", after_s)
        except Exception as error:
            # Neither the message of a foreign error, which may quote a text, nor the path, which
            # may hold a secret.
            name, where = scope.get("endpoint_name", "?"), "".join(format_tb(error.__traceback__))
            _LOG.error("%s %s: %s\n%s", scope["method"], name, type(error).__name__, where)
            response = protocol.refuse(request, Internal("the request failed: see the log"))
        scope["status"] = response.status_code
        scope["protocol"] = protocol.name
        await response(scope, receive, send)

    def _find(self, path: str, scope: Scope) -> tuple[ProtocolPackage, Endpoint]:
        """The endpoint of a path and a method.

        Raises:
            NotFound: no protocol has the path.
            WrongMethod: it has other methods.
        """
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        methods = self._exact.get(path, {})
        if not methods:
            for pattern, owner, endpoint in self._patterns:
                if matched := pattern.match(path):
                    methods = {**methods, endpoint.method: (owner, endpoint)}
                    scope["path_params"] = matched.groupdict()
        if method in methods:
            return methods[method]
        if methods:
            allowed = tuple(sorted(methods))
            raise WrongMethod(f"{path} takes {', '.join(allowed)}, not {scope['method']}", allowed)
        raise NotFound(f"there is no {path[:200]}")

    async def _answer(self, request: GatewayRequest, endpoint: Endpoint) -> Response:
        if endpoint.reads_body:
            return await endpoint.handle(request)
        request.content = await request.body()
        task = asyncio.current_task()
        assert task is not None
        left = asyncio.create_task(_cancel_when_left(request.receive, task))
        try:
            response = await endpoint.handle(request)
        except asyncio.CancelledError:
            if not left.done():
                raise  # the gateway stops
        finally:
            left.cancel()
        if left.done() and not left.cancelled():
            task.uncancel()
            raise ClientDisconnect
        return response


async def _cancel_when_left(receive: Receive, task: asyncio.Task[None]) -> None:
    """Cancel the task of a request when its client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    task.cancel()

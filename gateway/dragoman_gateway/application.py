"""The ASGI application: all protocols on top of one core."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman_gateway.core.errors import GatewayError
from dragoman_gateway.page.web_page import PageProtocol
from dragoman_gateway.protocols.agents.agent_protocol import AgentProtocol
from dragoman_gateway.protocols.chat.chat_protocol import ChatProtocol
from dragoman_gateway.protocols.deepl.deepl_protocol import DeepLProtocol
from dragoman_gateway.protocols.extensions.extension_protocol import ExtensionProtocol
from dragoman_gateway.protocols.kserve.kserve_protocol import KServeProtocol
from dragoman_gateway.protocols.libretranslate.libretranslate_protocol import LibreTranslateProtocol
from dragoman_gateway.protocols.own.protocol import OwnProtocol
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.web.endpoints import Dispatcher, ProtocolPackage
from dragoman_gateway.web.middleware.access_log import AccessLog
from dragoman_gateway.web.middleware.observation import Observed
from dragoman_gateway.web.middleware.protection import Protection
from dragoman_gateway.web.middleware.request_spans import RequestSpans, Traced
from dragoman_gateway.web.middleware.sockets import Sockets
from dragoman_gateway.web.operations import Operations


class GatewayApplication:
    """The ASGI application of a gateway."""

    def __init__(
        self, gateway: Gateway, log: AccessLog | None = None, spans: RequestSpans | None = None
    ) -> None:
        """Combine the parts.

        Args:
            gateway: the core that all protocols share.
            log: gets a line for each request; None: no log.
            spans: makes spans of requests; None: no tracing.
        """
        own = OwnProtocol(gateway)
        protocols: Sequence[ProtocolPackage] = (
            Operations(gateway),
            PageProtocol(gateway, own),
            LibreTranslateProtocol(gateway),
            KServeProtocol(gateway),
            DeepLProtocol(gateway),
            ExtensionProtocol(gateway),
            ChatProtocol(gateway),
            AgentProtocol(gateway),
            own,
        )
        self._gateway = gateway
        self._dispatcher = Dispatcher(
            protocols, gateway.access, gateway.settings, gateway.bodies, gateway.jobs.upload
        )
        self._sockets = Sockets(own, own.sockets, gateway.access, gateway.settings)
        answering: ASGIApp = self._answer
        if spans is not None:
            answering = Traced(answering, spans)
        self._protection = Protection(answering, gateway.access, gateway.settings)
        self._observed = Observed(self._protection, gateway.metrics, log)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "lifespan":
            await _lifespan(self._gateway, receive, send)
        elif scope["type"] in ("http", "websocket"):
            scope.setdefault("method", "WEBSOCKET")
            await self._observed(scope, receive, send)

    def has_socket(self, path: str) -> bool:
        """Whether there is a WebSocket at a path."""
        return self._sockets.have(path)

    def refuse(self, method: str, path: str, error: GatewayError | None) -> Response:
        """Returns the answer to a request that cannot be read; see `Dispatcher.refuse`."""
        return self._dispatcher.refuse(method, self._protection.without_prefix(path), error)

    def _answer(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Answer a request or a WebSocket that passed the middleware."""
        answering = self._sockets if scope["type"] == "websocket" else self._dispatcher
        return answering(scope, receive, send)


async def _lifespan(gateway: Gateway, receive: Receive, send: Send) -> None:
    """Open the gateway when the server starts, and close it when it stops."""
    await receive()
    async with gateway:
        await send({"type": "lifespan.startup.complete"})
        await receive()
    await send({"type": "lifespan.shutdown.complete"})

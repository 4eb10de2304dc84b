"""The ASGI application: the protocols over one core."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman_gateway.core.gateway import Gateway
from dragoman_gateway.deepl.deepl_protocol import DeepLProtocol
from dragoman_gateway.libretranslate.libretranslate_protocol import LibreTranslateProtocol
from dragoman_gateway.own.protocol import OwnProtocol
from dragoman_gateway.page.web_page import PageProtocol
from dragoman_gateway.web.access_log import AccessLog
from dragoman_gateway.web.endpoints import Dispatcher, ProtocolPackage
from dragoman_gateway.web.observation import Observed
from dragoman_gateway.web.operations import Operations
from dragoman_gateway.web.protection import Protection


def application(gateway: Gateway, log: AccessLog | None = None) -> ASGIApp:
    """The application of a gateway.

    Args:
        gateway: what all protocols share.
        log: gets a line for each request; None: there is no log.
    """
    own = OwnProtocol(gateway)
    protocols: Sequence[ProtocolPackage] = (
        Operations(gateway),
        PageProtocol(gateway, own),
        LibreTranslateProtocol(gateway),
        DeepLProtocol(gateway),
        own,
    )
    dispatcher = Dispatcher(protocols, gateway.settings)
    protected = Protection(dispatcher, gateway.access, gateway.settings)
    observed = Observed(protected, gateway.metrics, log)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(gateway, receive, send)
        elif scope["type"] == "http":
            await observed(scope, receive, send)

    return serve


async def _lifespan(gateway: Gateway, receive: Receive, send: Send) -> None:
    """Open the gateway when the server starts, and close it when it stops."""
    await receive()
    async with gateway:
        await send({"type": "lifespan.startup.complete"})
        await receive()
    await send({"type": "lifespan.shutdown.complete"})

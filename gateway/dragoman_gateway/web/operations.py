"""What operators ask: whether the gateway lives, whether it is ready, its metrics."""

from __future__ import annotations

import asyncio
import ipaddress
import time

import msgspec
from starlette.responses import Response

from dragoman_gateway.core.errors import GatewayError, KeyRefused
from dragoman_gateway.core.gateway import Gateway
from dragoman_gateway.core.metrics import CONTENT_TYPE
from dragoman_gateway.web.endpoints import Endpoint
from dragoman_gateway.web.requests import JSON, GatewayRequest

_ASK_S = 2.0
"""The longest that the server behind may take to say whether it is ready."""
_FRESH_S = 0.25
"""For which its answer is used again, so that probes cannot load it."""
_RETRY_S = 2
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")


class Operations:
    """See `ProtocolPackage`."""

    name = "operations"

    def __init__(self, gateway: Gateway) -> None:
        """Begin."""
        self._gateway = gateway
        networks = gateway.settings.metrics_networks
        self._networks = [ipaddress.ip_network(one, strict=False) for one in networks]
        self._asked_s, self._is_ready = -_FRESH_S, False
        self._asking = asyncio.Lock()
        self.endpoints = (
            Endpoint("GET", "/livez", self._live),
            Endpoint("GET", "/readyz", self._ready),
            Endpoint("GET", "/metrics", self._metrics),
        )
        self._paths = {one.path for one in self.endpoints}

    def is_for(self, path: str) -> bool:
        """See `ProtocolPackage`."""
        return path in self._paths

    def refuse(self, request: GatewayRequest, error: GatewayError) -> Response:
        """See `ProtocolPackage`."""
        return _json({"error": {"code": error.code, "message": str(error)}}, error.status)

    async def _live(self, request: GatewayRequest) -> Response:
        return _json({"status": "ok"})

    async def _ready(self, request: GatewayRequest) -> Response:
        if self._gateway.stopping:
            return _json({"status": "stopping"}, 503)
        if not await self._server_is_ready():
            return _json({"status": "the server behind is not ready"}, 503)
        return _json({"status": "ok"})

    async def _metrics(self, request: GatewayRequest) -> Response:
        # Behind a proxy that is not named in the settings, every address is the proxy's.
        is_forwarded = any(name in request.headers for name in _FORWARDED)
        if not self._may_read(request.address) or (
            is_forwarded and not self._gateway.settings.trusted_proxies
        ):
            raise KeyRefused(
                "metrics are for this machine alone: name more networks with --metrics-networks"
            )
        return Response(self._gateway.metrics.text(), media_type=CONTENT_TYPE)

    def _may_read(self, address: str) -> bool:
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(found in one for one in self._networks)

    async def _server_is_ready(self) -> bool:
        async with self._asking:
            if time.monotonic() - self._asked_s >= _FRESH_S:
                try:
                    async with asyncio.timeout(_ASK_S):
                        self._is_ready = await self._gateway.translations.is_ready()
                except TimeoutError:
                    self._is_ready = False
                self._asked_s = time.monotonic()
            return self._is_ready


def _json(body: object, status: int = 200) -> Response:
    headers = {"Cache-Control": "no-store"}
    if status == 503:
        headers["Retry-After"] = str(_RETRY_S)
    return Response(msgspec.json.encode(body), status, headers, media_type=JSON)

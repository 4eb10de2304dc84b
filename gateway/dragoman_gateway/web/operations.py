"""Endpoints for operators: liveness, readiness, metrics."""

from __future__ import annotations

from starlette.responses import Response

from dragoman_gateway.core.errors import GatewayError, KeyRefused
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.shared.metrics import CONTENT_TYPE
from dragoman_gateway.web.endpoints import Endpoint
from dragoman_gateway.web.forwarding import FORWARDED, Networks
from dragoman_gateway.web.requests import GatewayRequest
from dragoman_gateway.web.responses import error_headers, json_response

PATHS = frozenset(("/livez", "/readyz", "/metrics"))
_RETRY_S = 2


class Operations:
    """See `ProtocolPackage`."""

    name = "operations"
    takes_keys_in_bodies = False

    def __init__(self, gateway: Gateway) -> None:
        """Make the endpoints.

        Raises:
            UsageError: a network in `metrics_networks` is not valid.
        """
        self._gateway = gateway
        self._networks = Networks("metrics_networks", gateway.settings.metrics_networks)
        self.endpoints = (
            Endpoint("GET", "/livez", self._live),
            Endpoint("GET", "/readyz", self._ready),
            Endpoint("GET", "/metrics", self._metrics),
        )

    def is_for(self, path: str) -> bool:
        """See `ProtocolPackage`."""
        return path in PATHS

    def key_of(self, _request: GatewayRequest) -> str | None:
        """See `ProtocolPackage`."""
        return None

    def refuse(self, _request: GatewayRequest, error: GatewayError) -> Response:
        """See `ProtocolPackage`."""
        body = {"error": {"code": error.code, "message": str(error)}}
        return json_response(body, error.status, error_headers(error))

    async def _live(self, _request: GatewayRequest) -> Response:
        return json_response({"status": "ok"})

    async def _ready(self, _request: GatewayRequest) -> Response:
        if self._gateway.stopping:
            return _not_ready("stopping")
        if not await self._gateway.translations.is_ready():
            return _not_ready("the translation server is not ready")
        return json_response({"status": "ok"})

    async def _metrics(self, request: GatewayRequest) -> Response:
        # Also of trusted proxies: a client may name any address if they append to its header.
        is_forwarded = any(name in FORWARDED for name, _ in request.scope["headers"])
        if is_forwarded or not self._networks.have(request.address):
            raise KeyRefused(
                "metrics are only for this machine, without a proxy: allow more networks with "
                "--metrics-networks"
            )
        return Response(self._gateway.metrics.text(), media_type=CONTENT_TYPE)


def _not_ready(status: str) -> Response:
    return json_response({"status": status}, 503, {"Retry-After": str(_RETRY_S)})

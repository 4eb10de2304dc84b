"""The project's own API, `/api/v1`: endpoints and errors."""

from __future__ import annotations

from typing import Any

import msgspec
from dragoman_client import Translation
from starlette.responses import Response

from dragoman_gateway.core.errors import GatewayError, InvalidInput
from dragoman_gateway.core.gateway import Gateway
from dragoman_gateway.web.endpoints import Endpoint
from dragoman_gateway.web.requests import JSON, GatewayRequest

_PREFIX = "/api/v1"


class OwnProtocol:
    """See `ProtocolPackage`."""

    name = "own"

    def __init__(self, gateway: Gateway) -> None:
        """Begin."""
        self._gateway = gateway
        self.endpoints = (Endpoint("POST", f"{_PREFIX}/translate", self._translate),)

    def is_for(self, path: str) -> bool:
        """See `ProtocolPackage`; the last one, so that every path is its."""
        return True

    def refuse(self, request: GatewayRequest, error: GatewayError) -> Response:
        """See `ProtocolPackage`."""
        body = {"error": {"code": error.code, "message": str(error)}}
        return _json(body, error.status)

    async def _translate(self, request: GatewayRequest) -> Response:
        fields = request.read_json(dict[str, Any])
        texts = fields.pop("text", None)
        given = [texts] if isinstance(texts, str) else texts
        if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
            raise InvalidInput("text: give a text or a list of texts")
        caller = await self._gateway.access.caller(request.bearer, self.name, request.address)
        found = await self._gateway.translations.translate(caller, given, fields)
        return _json({"translations": [_written(one) for one in found]})


def _written(translation: Translation) -> dict[str, Any]:
    return {"text": translation.text, "finish_reason": translation.finish_reason}


def _json(body: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, media_type=JSON)

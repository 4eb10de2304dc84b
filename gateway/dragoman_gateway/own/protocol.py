"""The project's own API, `/api/v1`: its endpoints, its errors, and its description."""

from __future__ import annotations

import contextlib
from typing import Any

from dragoman_options.option import Limits
from starlette.responses import Response

from dragoman_gateway.core.errors import GatewayError
from dragoman_gateway.core.gateway import Gateway
from dragoman_gateway.own.about import About
from dragoman_gateway.own.callers import PROTOCOL
from dragoman_gateway.own.openapi import openapi_document
from dragoman_gateway.own.operation import PREFIX
from dragoman_gateway.own.operation_table import operations
from dragoman_gateway.own.reference import POLICY, reference_page
from dragoman_gateway.own.replies import refuse, reply
from dragoman_gateway.own.storing import Documents, Glossaries
from dragoman_gateway.own.translating import Translating
from dragoman_gateway.web.endpoints import Endpoint
from dragoman_gateway.web.public_urls import public_url
from dragoman_gateway.web.requests import GatewayRequest

_PAGE_HEADERS = {"content-security-policy": POLICY}


class OwnProtocol:
    """See `ProtocolPackage`."""

    name = PROTOCOL
    takes_keys_in_bodies = False

    def __init__(self, gateway: Gateway) -> None:
        """Make the endpoints."""
        self._gateway, self._about = gateway, About(gateway)
        self._operations = operations(
            Translating(gateway),
            Glossaries(gateway),
            Documents(gateway),
            self._about,
            self._openapi,
            self._reference,
        )
        self._described: tuple[tuple[str, str, bool], dict[str, Any]] | None = None
        self.endpoints = tuple(
            Endpoint(one.method, PREFIX + one.path, one.handle, one.reads_body)
            for one in self._operations
            if one.handle is not None
        )

    def is_for(self, _path: str) -> bool:
        """See `ProtocolPackage`; this protocol is the last one and accepts every path."""
        return True

    def key_of(self, request: GatewayRequest) -> str | None:
        """See `ProtocolPackage`."""
        return request.bearer

    def refuse(self, request: GatewayRequest, error: GatewayError) -> Response:
        """See `ProtocolPackage`."""
        return refuse(request, error)

    async def _openapi(self, request: GatewayRequest) -> Response:
        return reply(await self._document(request))

    async def _reference(self, request: GatewayRequest) -> Response:
        page = reference_page(await self._document(request))
        return Response(page, headers=_PAGE_HEADERS, media_type="text/html")

    async def _document(self, request: GatewayRequest) -> dict[str, Any]:
        limits: Limits = {}
        version = "unknown"
        with contextlib.suppress(GatewayError):  # the server is starting or not available
            info = await self._gateway.translations.info()
            version, limits = info.version, info.limits
        base = public_url(request, self._gateway.settings)
        keys_required = await self._about.keys_required()
        key = (base, version, keys_required)
        if self._described is None or self._described[0] != key:
            document = openapi_document(
                self._operations,
                version=version,
                base=base,
                limits=limits,
                keys_required=keys_required,
            )
            self._described = (key, document)
        return self._described[1]

"""The project's own API, `/api/v1`: its endpoints, its errors, and its description."""

from __future__ import annotations

import contextlib
import re
from urllib.parse import urlsplit

import msgspec
from dragoman_options.option import Limits
from starlette.responses import Response

from dragoman_gateway.core.errors import GatewayError
from dragoman_gateway.protocols.own.about import About
from dragoman_gateway.protocols.own.callers import PROTOCOL
from dragoman_gateway.protocols.own.live_text import LiveText
from dragoman_gateway.protocols.own.memory_storing import Memories
from dragoman_gateway.protocols.own.openapi import openapi_document
from dragoman_gateway.protocols.own.operation import PREFIX
from dragoman_gateway.protocols.own.operation_table import operations
from dragoman_gateway.protocols.own.reference import POLICY, reference_page
from dragoman_gateway.protocols.own.replies import NO_STORE, refuse
from dragoman_gateway.protocols.own.storing import Documents, Glossaries
from dragoman_gateway.protocols.own.translating import Translating
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.web.endpoints import Endpoint
from dragoman_gateway.web.requests import JSON, GatewayRequest, public_url

_PATH = "/path-of-the-gateway"
_BASE = f"http://gateway.invalid{_PATH}"
_SERVERS = '"servers":[{"url":"%s"}]'
_PLAIN_URL = re.compile(r"https?://[\w.:\[\]-]++(?:/[\w.~/-]*+)?", re.ASCII)
_PAGE_HEADERS = {"content-security-policy": POLICY}


class OwnProtocol:
    """See `ProtocolPackage`."""

    name = PROTOCOL
    takes_keys_in_bodies = False

    def __init__(self, gateway: Gateway) -> None:
        """Make the endpoints."""
        self._gateway, self._about = gateway, About(gateway)
        live = LiveText(gateway)
        self.sockets = {f"{PREFIX}/live": live.converse}
        self._operations = operations(
            Translating(gateway),
            live,
            Glossaries(gateway),
            Memories(gateway),
            Documents(gateway),
            self._about,
            self._openapi,
            self._reference,
        )
        self._described: tuple[tuple[str, bool], tuple[str, str]] | None = None
        self.endpoints = tuple(
            Endpoint(
                operation.method, PREFIX + operation.path, operation.handle, operation.reads_body
            )
            for operation in self._operations
            if operation.handle is not None
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
        document, _ = await self._descriptions()
        base = self._base(request)
        servers = _SERVERS % (urlsplit(base).path or "/")
        content = document.replace(_SERVERS % _PATH, servers).replace(_BASE, base)
        return Response(content, headers=dict(NO_STORE), media_type=JSON)

    async def _reference(self, request: GatewayRequest) -> Response:
        _, page = await self._descriptions()
        content = page.replace(_BASE, self._base(request))
        return Response(content, headers=_PAGE_HEADERS, media_type="text/html")

    def _base(self, request: GatewayRequest) -> str:
        """Returns the gateway's URL, if its characters mean nothing in JSON, HTML or a shell."""
        base = public_url(request, self._gateway.settings)
        return base if _PLAIN_URL.fullmatch(base) else "http://localhost"

    async def _descriptions(self) -> tuple[str, str]:
        """Returns the OpenAPI document and its page, with a placeholder for the gateway's URL.

        They are made once, since that takes a tenth of a second of the event loop.
        """
        limits: Limits = {}
        version = "unknown"
        with contextlib.suppress(GatewayError):  # the server is starting or not available
            info = await self._gateway.translations.info()
            version, limits = info.version, info.limits
        keys_required = await self._about.keys_required()
        key = (version, keys_required)
        if self._described is None or self._described[0] != key:
            document = openapi_document(
                self._operations,
                version=version,
                base=_BASE,
                limits=limits,
                keys_required=keys_required,
            )
            texts = msgspec.json.encode(document).decode(), reference_page(document)
            self._described = (key, texts)
        return self._described[1]

"""The endpoints of browser extensions, from the table of their shapes."""

from __future__ import annotations

from typing import Any

from dragoman_options.table import AUTO
from starlette.responses import Response

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import GatewayError
from dragoman_gateway.protocols.extensions.extension_shapes import SHAPES, Answer, Shape, Work
from dragoman_gateway.reader.marked import TextForm
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.web.endpoints import Endpoint
from dragoman_gateway.web.requests import GatewayRequest
from dragoman_gateway.web.responses import error_headers, json_response


class ExtensionProtocol:
    """See `ProtocolPackage`."""

    name = "extensions"
    takes_keys_in_bodies = False

    def __init__(self, gateway: Gateway) -> None:
        """Make the endpoints."""
        self._gateway = gateway
        self._paths = {shape.path for shape in SHAPES}
        self.endpoints = tuple(
            self._endpoint(method, shape) for shape in SHAPES for method in shape.methods
        )

    def is_for(self, path: str) -> bool:
        """See `ProtocolPackage`."""
        return path in self._paths or path.startswith("/translate_a/")

    def key_of(self, request: GatewayRequest) -> str | None:
        """See `ProtocolPackage`; some extensions let their users set only the URL."""
        google = request.headers.get("x-goog-api-key")
        return request.bearer or google or request.query_params.get("key")

    def refuse(self, _request: GatewayRequest, error: GatewayError) -> Response:
        """See `ProtocolPackage`; Google's form, since the extensions define none."""
        body = {"code": error.status, "message": str(error), "status": error.code.upper()}
        return json_response({"error": body}, error.status, error_headers(error))

    def _endpoint(self, method: str, shape: Shape) -> Endpoint:
        async def handle(request: GatewayRequest) -> Response:
            key = self.key_of(request)
            caller = await request.identify(self._gateway.access, key, self.name)
            work = await shape.read(request)
            return json_response(shape.write(work, await self._translated(caller, work)))

        return Endpoint(method, shape.path, handle)

    async def _translated(self, caller: Caller, work: Work) -> list[Answer]:
        gateway, translations = self._gateway, self._gateway.translations
        languages = await translations.languages()
        source = AUTO
        if work.source.lower() != AUTO:
            source = languages.find(work.source, languages.sources, "source language")
        target = languages.find(work.target, languages.targets, "target language")
        options: dict[str, Any] = {"source_language": source, "target_language": target}
        if not work.is_html:
            answers = await translations.translate(caller, work.texts, options)
        else:
            answers = await gateway.marked.translate(
                caller,
                work.texts,
                TextForm("html", None if source == AUTO else source),
                options,
            )
        # An empty text is the same in every language.
        unknown = target if source == AUTO else source
        return [Answer(answer.text, answer.detected_language or unknown) for answer in answers]

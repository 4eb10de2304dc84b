"""The page and its files, at `/`, `/page/` and `/translator.js`, and `POST /api/v1/attention`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.responses import HTMLResponse, Response

from dragoman.drawing.page import inline_hashes, write_page
from dragoman.kernel.attention_maps import Attention
from dragoman_gateway.core.errors import GatewayError, InvalidInput
from dragoman_gateway.page.static_files import INDEX, StaticFile, read_files
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.web.endpoints import Endpoint, ProtocolPackage
from dragoman_gateway.web.requests import GatewayRequest

_FOLDER = "/page/"
_AT_THE_ROOT = {INDEX: "/", "translator.js": "/translator.js"}


class PageProtocol:
    """See `ProtocolPackage`."""

    name = "page"
    takes_keys_in_bodies = False

    def __init__(self, gateway: Gateway, own: ProtocolPackage) -> None:
        """Read the files.

        Args:
            gateway: the gateway's core.
            own: the protocol that the page uses, which also formats errors.
        """
        self._gateway, self._own = gateway, own
        self._headers = page_headers()
        self.endpoints = (
            *(
                Endpoint("GET", _AT_THE_ROOT.get(name, _FOLDER + name), self._sender(file))
                for name, file in read_files().items()
            ),
            Endpoint("POST", "/api/v1/attention", self._attention),
        )

    def is_for(self, path: str) -> bool:
        """See `ProtocolPackage`."""
        return path in _AT_THE_ROOT.values() or path.startswith(_FOLDER)

    def key_of(self, request: GatewayRequest) -> str | None:
        """See `ProtocolPackage`."""
        return request.bearer

    def refuse(self, request: GatewayRequest, error: GatewayError) -> Response:
        """See `ProtocolPackage`."""
        return self._own.refuse(request, error)

    async def _attention(self, request: GatewayRequest) -> Response:
        """Return a page like that of `dragoman attention` for a sentence and its translation."""
        caller = await request.identify(self._gateway.access, request.bearer, self._own.name)
        fields = request.read_json(dict[str, Any])
        text, target = fields.pop("text", None), fields.pop("target", None)
        if not isinstance(text, str) or not text.strip():
            raise InvalidInput("text: give a sentence to look at")
        if target is not None and not isinstance(target, str):
            raise InvalidInput("target: give a translation of the text, or leave it out")
        fields.pop("store", None)  # for `translate`; attention is never stored
        options = {**fields, "return_attention": True}
        translations = self._gateway.translations
        if target is None:
            (translation,) = await translations.translate(caller, [text], options, store=False)
            seen, target = translation.attention, translation.text
        else:
            (scored,) = await translations.score(caller, [text], [target], options)
            seen = scored.attention
        assert seen is not None  # it was requested, and the client has checked the answer
        attention = Attention(**vars(seen))
        if not attention.source:
            raise InvalidInput("text: give a sentence with words to look at")
        # In a thread, since the page may have a million weights.
        page = await asyncio.to_thread(write_page, attention, text, target)
        script, style = inline_hashes()
        policy = f"default-src 'none'; script-src '{script}'; style-src '{style}'"
        headers = {"Content-Security-Policy": f"{policy}; sandbox allow-scripts"}
        return HTMLResponse(page, headers=headers)

    def _sender(self, file: StaticFile) -> Callable[[GatewayRequest], Awaitable[Response]]:
        async def send(request: GatewayRequest) -> Response:
            # Without the slash after a prefix, the page's relative URLs would not include it.
            _, _, last = request.scope.get("raw_path", b"").rpartition(b"/")
            if last and request.scope["path"] == "/":
                return Response(status_code=308, headers={"Location": f"./{last.decode()}/"})
            return file.answer(request.headers, self._headers)

        return send


def page_headers() -> dict[str, str]:
    """Returns the headers of the page and its files, besides those of all answers.

    The attention page is shown in a frame without an origin, whose document inherits this policy.
    So the policy contains the hashes of its script and style, and allows no other inline ones.
    """
    script, style = inline_hashes()
    policy = (
        "default-src 'none'",
        f"script-src 'self' '{script}'",
        f"style-src 'self' '{style}'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types attention",
    )
    return {
        "Content-Security-Policy": "; ".join(policy),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
        "X-Frame-Options": "DENY",
    }

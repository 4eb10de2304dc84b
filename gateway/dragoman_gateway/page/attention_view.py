"""`POST /api/v1/attention`: a page that shows the attention weights of a sentence."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import HTMLResponse, Response

from dragoman.drawing.page import inline_hashes, write_page
from dragoman.kernel.attention_maps import Attention
from dragoman_gateway.core.errors import InvalidInput
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.web.identification import identify
from dragoman_gateway.web.requests import GatewayRequest


class AttentionPage:
    """The endpoint of the attention page."""

    def __init__(self, gateway: Gateway, protocol: str) -> None:
        """Prepare.

        Args:
            gateway: the gateway's core.
            protocol: name of the protocol, for access.
        """
        self._gateway, self._protocol = gateway, protocol
        policy = f"{drawing_policy()}; sandbox allow-scripts"
        self._headers = {"Content-Security-Policy": policy}

    async def answer(self, request: GatewayRequest) -> Response:
        """Return a page like that of `dragoman attention` for a sentence and its translation."""
        caller = await identify(self._gateway.access, request, request.bearer, self._protocol)
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
        return HTMLResponse(page, headers=self._headers)


def drawing_policy() -> str:
    """Returns the content security policy of the attention page: only its own script and style."""
    script, style = inline_hashes()
    return f"default-src 'none'; script-src '{script}'; style-src '{style}'"

"""`POST /api/v1/attention`: what the model's heads looked at in a sentence, as a page."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import HTMLResponse, Response

from dragoman.drawing.page import inline_hashes, write_page
from dragoman.kernel.attention_maps import Attention, Kind
from dragoman_gateway.core.errors import InvalidInput
from dragoman_gateway.core.gateway import Gateway
from dragoman_gateway.web.identification import identify
from dragoman_gateway.web.requests import GatewayRequest

KIND: Kind = "cross"
"""Shown first: what the translation looked at in the text."""


class AttentionPage:
    """The endpoint."""

    def __init__(self, gateway: Gateway, protocol: str) -> None:
        """Begin.

        Args:
            gateway: that it asks.
            protocol: its name, for access.
        """
        self._gateway, self._protocol = gateway, protocol
        policy = f"{drawing_policy()}; sandbox allow-scripts"
        self._headers = {"Content-Security-Policy": policy}

    async def answer(self, request: GatewayRequest) -> Response:
        """A sentence, and optionally its translation, as a page of `dragoman attention`."""
        caller = await identify(self._gateway.access, request, request.bearer, self._protocol)
        fields = request.read_json(dict[str, Any])
        text, target = fields.pop("text", None), fields.pop("target", None)
        if not isinstance(text, str) or not text.strip():
            raise InvalidInput("text: give a sentence to look at")
        if target is not None and not isinstance(target, str):
            raise InvalidInput("target: give a translation of the text, or leave it out")
        fields.pop("store", None)  # of `translate`: no picture is kept
        options = {**fields, "return_attention": True}
        translations = self._gateway.translations
        if target is None:
            (found,) = await translations.translate(caller, [text], options, store=False)
            seen, target = found.attention, found.text
        else:
            (scored,) = await translations.score(caller, [text], [target], options)
            seen = scored.attention
        assert seen is not None  # it was asked for, and the client has checked the answer
        weights = seen.encoder, seen.decoder, seen.cross
        attention = Attention(seen.source, seen.read, seen.said, *weights)
        if not attention.source:
            raise InvalidInput("text: give a sentence with words to look at")
        # Up to a million weights are written.
        page = await asyncio.to_thread(write_page, attention, text, target, KIND)
        return HTMLResponse(page, headers=self._headers)


def drawing_policy() -> str:
    """What the page of `dragoman attention` may do: run its own script."""
    script, style = inline_hashes()
    return f"default-src 'none'; script-src '{script}'; style-src '{style}'"

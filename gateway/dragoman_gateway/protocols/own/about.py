"""Endpoints about the server: information, languages and health; and the caller's usage.

All but the last need no key, so that a client can find out that it needs one.
"""

from __future__ import annotations

from dragoman_client import ServerInfo
from starlette.responses import Response

from dragoman_gateway.core.errors import Unavailable
from dragoman_gateway.protocols.own.answers import answer_of
from dragoman_gateway.protocols.own.callers import caller_of
from dragoman_gateway.protocols.own.replies import reply
from dragoman_gateway.protocols.own.shapes import (
    FeaturesAnswer,
    HealthAnswer,
    InfoAnswer,
    LanguageAnswer,
    LanguagesAnswer,
    PairAnswer,
    UsageAnswer,
)
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.texts.languages import Languages, name_of
from dragoman_gateway.web.requests import GatewayRequest

PRODUCT = "dragoman"
"""Clients recognize this API by this value."""
_RETRY_AFTER_S = 1.0


class About:
    """Endpoints about the server."""

    def __init__(self, gateway: Gateway) -> None:
        """Store the core."""
        self._gateway = gateway

    async def info(self, request: GatewayRequest) -> Response:
        """Return the server's version, models, languages, options and limits."""
        info = await self._gateway.translations.info()
        settings = self._gateway.settings
        features = FeaturesAnswer(
            keys_required=await self.keys_required(),
            document_formats=list(self._gateway.jobs.formats),
            body_bytes=settings.body_bytes,
            file_bytes=settings.file_bytes,
        )
        return reply(
            answer_of(
                InfoAnswer,
                info,
                product=PRODUCT,
                pairs=_pairs(info),
                options=list(info.options.values()),
                features=features,
                request_id=request.request_id,
            )
        )

    async def languages(self, request: GatewayRequest) -> Response:
        """Return the source languages, with their target languages."""
        info = await self._gateway.translations.info()
        served = Languages.of(info)
        languages = [
            LanguageAnswer(code, name_of(code), served.targets_of(code)) for code in served.sources
        ]
        return reply(LanguagesAnswer(languages, _pairs(info), request.request_id))

    async def health(self, request: GatewayRequest) -> Response:
        """Return whether the server can translate now."""
        if self._gateway.stopping:
            raise Unavailable("the gateway is shutting down: use another one", _RETRY_AFTER_S)
        if not await self._gateway.translations.is_ready():
            raise Unavailable("the model is not ready: try again soon", _RETRY_AFTER_S)
        return reply(HealthAnswer("ready", request.request_id))

    async def usage(self, request: GatewayRequest) -> Response:
        """Return the caller's usage in this month."""
        caller = await caller_of(self._gateway, request)
        used = await self._gateway.access.usage(caller)
        return reply(answer_of(UsageAnswer, used, request_id=request.request_id))

    async def keys_required(self) -> bool:
        """Whether requests need an API key."""
        return not await self._gateway.access.needs_no_key()


def _pairs(info: ServerInfo) -> list[PairAnswer]:
    return [
        PairAnswer(pair.source, pair.target, list(pair.models), pair.via) for pair in info.pairs
    ]

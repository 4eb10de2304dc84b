"""The status of the server behind the gateway: its readiness and its information."""

from __future__ import annotations

import asyncio
import contextlib
import time

from dragoman_client import AsyncTranslator, ServerInfo, TranslationError

from dragoman_gateway.core.errors import client_errors
from dragoman_gateway.core.retries import with_retries
from dragoman_gateway.texts.cache import fingerprint
from dragoman_gateway.texts.languages import Languages

_CONFIRMED_S = 1.0
"""How long the server's information is reused. A server takes longer than this to restart, so the
gateway never answers with a previous model's translations after a new one is loaded."""
_FRESH_S = 0.25
"""How long an answer about readiness is reused."""
_READY_S = 1.2
"""Timeout of a readiness request."""
_READY_REQUESTS = 2
"""Requests before the server counts as not ready: behind a balancer the first may reach a server
that has just stopped, while the others translate."""


class ServerStatus:
    """Asks the server for its readiness and its information, and reuses answers for a short time.

    Attributes:
        known: the last information; None: not received yet.
        languages: the languages in it.
    """

    def __init__(self, translator: AsyncTranslator) -> None:
        """Start; requests are sent later.

        Args:
            translator: a connection to the server.
        """
        self._translator = translator
        self._asking_ready, self._asked_s, self._was_ready = asyncio.Lock(), -_FRESH_S, False
        self._asking: asyncio.Task[None] | None = None
        self._confirmed_s = -_CONFIRMED_S
        self._fingerprint = b""
        self.known: ServerInfo | None = None
        self.languages = Languages(())

    async def is_ready(self) -> bool:
        """Whether the server can translate; answers are reused briefly, so probes cost little.

        This asks the engine for its information, since Triton reports ready even if an engine
        hangs.
        """
        async with self._asking_ready:
            if time.monotonic() - self._asked_s >= _FRESH_S:
                self._was_ready = False
                for _ in range(_READY_REQUESTS):
                    with contextlib.suppress(TimeoutError, TranslationError):
                        async with asyncio.timeout(_READY_S):
                            await self._translator.info()
                        self._was_ready = True
                        break
                self._asked_s = time.monotonic()
            return self._was_ready

    async def confirmed(self) -> tuple[ServerInfo, bytes]:
        """Returns the server's information, and its fingerprint.

        Raises:
            GatewayError: the server does not answer.
        """
        if time.monotonic() - self._confirmed_s > _CONFIRMED_S:
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._ask())
                self._asking.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.shield(self._asking)
        assert self.known is not None
        return self.known, self._fingerprint

    def forget(self) -> None:
        """Make the next call of `confirmed` ask the server."""
        self._confirmed_s = -_CONFIRMED_S

    async def _ask(self) -> None:
        begin_s = time.monotonic()
        with client_errors():
            info = await with_retries(self._translator.info)
        if info != self.known:
            self.known, self._fingerprint = info, fingerprint(info)
            self.languages = Languages.of(info)
        self._confirmed_s = begin_s

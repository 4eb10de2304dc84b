"""Who may use the gateway, and how much.

So far access is open: every request is anonymous and without limits.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from dragoman_gateway.core.caller import ANONYMOUS, Caller
from dragoman_gateway.core.record import note_caller
from dragoman_gateway.core.usage import Usage


class Access:
    """Identifies callers and counts what they use; one for all protocols."""

    async def caller(self, secret: str | None, protocol: str, address: str) -> Caller:
        """Who sends a request.

        Args:
            secret: the key as the protocol carries it; None: there is none.
            protocol: name of the protocol, which a key may exclude.
            address: network address of the client, behind trusted proxies.

        Raises:
            KeyMissing: a key is required.
            KeyRefused: the key is unknown, expired, revoked, or not for this protocol.
        """
        return ANONYMOUS

    @asynccontextmanager
    async def admitted(self, caller: Caller, characters: int) -> AsyncGenerator[None, None]:
        """Admit a request for as long as it runs.

        Args:
            caller: who sends it.
            characters: of its source texts, in Unicode code points.

        Raises:
            TooLarge: more characters than a request may have.
            TooManyRequests: above the limits of a minute, or too many at once.
            QuotaUsedUp: the characters of the month are used up.
        """
        note_caller(caller, characters)
        yield

    async def usage(self, caller: Caller) -> Usage:
        """What a caller has used in this month."""
        raise NotImplementedError

"""Replacements of `Access.caller`: who sends a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dragoman_gateway.core.caller import NO_LIMITS, Caller, Limits
from dragoman_gateway.core.errors import GatewayError, KeyMissing, KeyRefused

FindCaller = Callable[[str | None, str, str], Awaitable[Caller]]


def one_key(limits: Limits = NO_LIMITS) -> FindCaller:
    """The only key is `right`."""

    async def caller(secret: str | None, _protocol: str, _address: str) -> Caller:
        if not secret:
            raise KeyMissing("a key is required")
        if secret != "right":
            raise KeyRefused("there is no such key")
        return Caller("k", "k", limits)

    return caller


def nobody(error: GatewayError) -> FindCaller:
    """Every request fails."""

    async def caller(_secret: str | None, _protocol: str, _address: str) -> Caller:
        raise error

    return caller

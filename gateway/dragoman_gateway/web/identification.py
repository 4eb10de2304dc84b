"""Who sends an HTTP request."""

from __future__ import annotations

from dragoman_gateway.core.access import Access
from dragoman_gateway.core.caller import Caller
from dragoman_gateway.web.requests import GatewayRequest


async def identify(
    access: Access, request: GatewayRequest, secret: str | None, protocol: str
) -> Caller:
    """Who sends a request, and whether the cache may have its translations.

    Args:
        access: knows the keys.
        request: with its headers.
        secret: the key as the protocol carries it; None or empty: there is none.
        protocol: its name.

    Raises:
        KeyMissing: a key is required.
        KeyRefused: the key is not good for this.
    """
    caller = await access.caller(secret, protocol, request.address)
    return caller.obeying(request.headers.get("cache-control", ""))

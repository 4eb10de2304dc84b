"""Identifies the sender of an HTTP request."""

from __future__ import annotations

from dragoman_gateway.access.access import Access
from dragoman_gateway.core.caller import Caller
from dragoman_gateway.web.requests import GatewayRequest


async def identify(
    access: Access, request: GatewayRequest, secret: str | None, protocol: str
) -> Caller:
    """Identify the sender of a request, and whether the cache may be used.

    A request whose key was checked before its body is not checked again after it.

    Args:
        access: access control with the keys.
        request: the request.
        secret: the key in the request; None or empty: no key.
        protocol: name of the protocol.

    Raises:
        KeyMissing: a key is required.
        KeyRefused: the key is not valid for this.
        TooManyRequests: the bodies of the caller's requests are too large together.
        Unavailable: all bodies together are too large.
    """
    if request.caller is None or request.identified_by != (secret, protocol):
        caller = await access.caller(secret, protocol, request.address)
        if request.bounded_body is not None:
            request.bounded_body.charge(caller)
        request.caller, request.identified_by = caller, (secret, protocol)
    cache_control = request.header(b"cache-control")
    return request.caller.obeying(cache_control) if cache_control else request.caller

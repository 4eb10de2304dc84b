"""Identifies the sender of a request of this API."""

from __future__ import annotations

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.web.requests import GatewayRequest

PROTOCOL = "own"
"""Name of this API in keys, metrics and logs."""


async def caller_of(gateway: Gateway, request: GatewayRequest) -> Caller:
    """Identify the sender of a request by the header `Authorization: Bearer`.

    Raises:
        KeyMissing: a key is required.
        KeyRefused: the key is not valid for this.
    """
    return await request.identify(gateway.access, request.bearer, PROTOCOL)


async def counted_caller_of(gateway: Gateway, request: GatewayRequest) -> Caller:
    """`caller_of` for a request that counts for the caller's limits, but uses no characters."""
    caller = await caller_of(gateway, request)
    async with gateway.access.admitted(caller, 0):
        return caller

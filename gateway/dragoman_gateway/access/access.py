"""Access control and usage limits, shared by all protocols.

Access is open while the gateway can only be reached from its own machine and has no keys. Otherwise
a key is required, unless the settings allow anonymous use.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from dragoman_gateway.access.keys import Keys
from dragoman_gateway.access.limits import LocalRateLimiter, RateLimiter, check_size, refusal
from dragoman_gateway.access.record import note_caller, note_limit_status
from dragoman_gateway.access.shared_limits import RedisRateLimiter
from dragoman_gateway.access.usage import Month, Usage, UsageCounter
from dragoman_gateway.core.caller import ANONYMOUS, NO_LIMITS, Caller
from dragoman_gateway.core.errors import KeyMissing
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.core.store import Store

_SITE_BITS = 64
"""Length of the IPv6 network prefix of a site."""
_KEY_FIELDS = {
    "deepl": "Authorization: DeepL-Auth-Key KEY",
    "libretranslate": "api_key",
    "kserve": "Authorization: Bearer KEY, in gRPC as metadata",
    "riva": "gRPC metadata authorization: Bearer KEY",
}
"""How a client sends its key, by protocol; the others use a bearer token."""


class Access:
    """Identifies callers and counts their usage."""

    def __init__(self, settings: GatewaySettings, store: Store) -> None:
        """Prepare; `open` starts the work.

        Raises:
            UsageError: Redis is not installed, or its URL is wrong.
        """
        self._keys, self._usage = Keys(store), UsageCounter(store)
        self._limiter: RateLimiter = LocalRateLimiter()
        if settings.limits_url is not None:
            self._limiter = RedisRateLimiter(settings.limits_url, store, self._limiter)
        self._is_local = settings.is_local
        self._is_anonymous_allowed = settings.anonymous
        self._anonymous_limits = settings.anonymous_limits
        self._month = Month.of(time.time())

    async def open(self) -> None:
        """Start writing the usage."""
        self._usage.open()

    async def close(self) -> None:
        """Write the rest of the usage, after all requests have ended."""
        await self._usage.close()
        await self._limiter.close()

    async def is_open(self) -> bool:
        """Whether everybody may use the gateway without limits.

        Raises:
            Unavailable: the store is not available.
        """
        return self._is_local and not await self._keys.any()

    async def needs_no_key(self) -> bool:
        """Whether requests without a key are answered, with or without limits.

        Raises:
            Unavailable: the store is not available.
        """
        return self._is_anonymous_allowed or await self.is_open()

    async def caller(self, secret: str | None, protocol: str, address: str) -> Caller:
        """Identify the sender of a request.

        Args:
            secret: the key in the request; None or empty: no key.
            protocol: name of the protocol, which a key may exclude.
            address: network address of the client, behind trusted proxies.

        Raises:
            KeyMissing: a key is required.
            KeyRefused: the key is unknown, expired, revoked, or not valid for this protocol.
        """
        has_keys = await self._keys.any()
        if not has_keys and self._is_local:
            return ANONYMOUS
        # Some programs always send a key. It is ignored while the gateway has no keys.
        if secret and (has_keys or not self._is_anonymous_allowed):
            caller = await self._keys.caller(secret, protocol)
            self._usage.note_use(caller.name, datetime.now(UTC).date().isoformat())
            return caller
        if not self._is_anonymous_allowed:
            raise no_key(protocol)
        name = f"{ANONYMOUS.name} {network_of(address)}"
        return Caller(name, limits=self._anonymous_limits, is_stranger=True)

    @asynccontextmanager
    async def admitted(self, caller: Caller, characters: int) -> AsyncGenerator[None, None]:
        """Admit a request while it runs.

        Its characters count for the month unless it fails; a request that its client cancels
        counts.

        Args:
            caller: the sender.
            characters: length of its source texts, in Unicode code points.

        Raises:
            TooLarge: the request has more characters than a limit allows at any time.
            TooManyRequests: above a limit per minute, or too many concurrent requests.
            QuotaUsedUp: the monthly quota of characters is used up.
        """
        limits, month, name = caller.limits, self._present_month(), _counted_as(caller)
        check_size(limits, characters)
        status = None
        if limits != NO_LIMITS:
            if limits.characters_per_month is not None:
                await self._usage.read(name, month.name)
            used, _ = self._usage.total(name, month.name)
            status = await self._limiter.take(caller, characters, month.name, used)
            note_limit_status(status, month.end_s - time.time())
            if status.refused:
                raise refusal(status, characters, month.end)
        self._usage.add(name, month.name, characters, 1)
        note_caller(caller, characters)
        unused = 0
        try:
            yield
        except Exception:  # does not include cancellation, or closing a generator
            unused = characters
            raise
        finally:
            if unused:
                self._usage.add(name, month.name, -unused, 0)
            if status is not None:
                await self._limiter.give_back(caller, status, month.name, unused)

    async def refund(self, caller: Caller, characters: int, admitted_s: float) -> None:
        """Refund the characters of admitted work that failed after its request had ended.

        Args:
            caller: the admitted caller, with its limits at that time.
            characters: number of characters of source text.
            admitted_s: time of the admission, as Unix time.
        """
        month, name = Month.of(admitted_s).name, _counted_as(caller)
        self._usage.add(name, month, -characters, 0)
        if caller.limits != NO_LIMITS:
            await self._limiter.refund(caller, month, characters)

    async def usage(self, caller: Caller) -> Usage:
        """Returns the usage of a caller in this month, or of all callers without a key together.

        Raises:
            Unavailable: the store is not available.
        """
        month, name = self._present_month(), _counted_as(caller)
        await self._usage.read(name, month.name)
        own, requests = self._usage.total(name, month.name)
        characters = await self._limiter.month_used(caller, month.name, own)
        limit = caller.limits.characters_per_month
        return Usage(characters, requests, limit, month.begin, month.end)

    def _present_month(self) -> Month:
        if time.time() >= self._month.end_s:
            self._month = Month.of(time.time())
        return self._month


def no_key(protocol: str) -> KeyMissing:
    """Returns the error for a request that needs a key."""
    field = _KEY_FIELDS.get(protocol, "Authorization: Bearer KEY")
    return KeyMissing(
        f"a key is required: send it as {field}, or set it in your program; the operator of this "
        "gateway creates keys with dragoman keys add"
    )


def _counted_as(caller: Caller) -> str:
    """Returns the name under which the monthly usage of a caller is counted."""
    return caller.key_id or ANONYMOUS.name


def network_of(address: str) -> str:
    """Returns an IPv4 address, or the network of a site for an IPv6 address."""
    if ":" not in address:
        return address
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    assert isinstance(ip, ipaddress.IPv6Address)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((ip, _SITE_BITS), strict=False))

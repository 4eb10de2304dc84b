"""Rate limits of callers: usage of each limit, and whether another request is admitted.

A limit per minute is a token bucket: it can be used up at once, and refills evenly within a minute.
So at most 1 + t times the limit is used in t minutes.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from dragoman_gateway.core.caller import Caller, Limits
from dragoman_gateway.core.errors import GatewayError, QuotaUsedUp, TooLarge, TooManyRequests

Name = Literal["requests", "characters", "month", "concurrent"]
MINUTE_S = 60.0
_MOST_ANONYMOUS = 20_000
"""Maximum number of addresses that are counted separately."""
_TOLERANCE = 1e-6
"""Tolerance for rounding errors in sums of fractions."""
_RETRY_S = 1.0
"""Time after which another request may have ended."""
MOST_TEXTS = 20_000
"""Maximum number of texts in a request: the server's default limit of sentences."""


@dataclass(frozen=True, slots=True)
class LimitStatus:
    """The usage of a caller's limits, after a request was admitted or refused.

    Attributes:
        limits: the caller's limits.
        requests: used part of the requests per minute.
        characters: used part of the characters per minute.
        month: characters used in this month.
        running: number of its running requests.
        refused: the limit that refused the request; None: admitted.
        lease: identifies the running request, for `give_back`.
    """

    limits: Limits
    requests: float
    characters: float
    month: int
    running: int
    refused: Name | None = None
    lease: Any = None


class RateLimiter(Protocol):
    """Counts the usage of callers and refuses requests above a limit."""

    async def take(
        self, caller: Caller, characters: int, month: str, month_used: int
    ) -> LimitStatus:
        """Count a request and its characters, or nothing if that exceeds a limit.

        Args:
            caller: a caller with at least one limit.
            characters: number of characters of the request.
            month: the current month.
            month_used: characters used in it, as far as this process knows.
        """
        ...

    async def give_back(
        self, caller: Caller, status: LimitStatus, month: str, characters: int
    ) -> None:
        """End an admitted request.

        Args:
            caller: the caller of the request.
            status: the result of `take`.
            month: month of the admission.
            characters: characters that do not count for the month, because they were not
                translated.
        """
        ...

    async def refund(self, caller: Caller, month: str, characters: int) -> None:
        """Refund characters of a month for a request that has already ended."""
        ...

    async def month_used(self, caller: Caller, month: str, own: int) -> int:
        """Returns the characters that a caller has used in a month.

        Args:
            caller: the caller.
            month: the month.
            own: characters that this process knows of.
        """
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


@dataclass(slots=True)
class _Used:
    """The usage of a caller's limits per minute, at some time."""

    at_s: float
    requests: float = 0.0
    characters: float = 0.0
    running: int = 0


class LocalRateLimiter:
    """Counts for this process only; see `RateLimiter`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start without usage.

        Args:
            clock: returns seconds since an arbitrary time.
        """
        self._clock = clock
        self._keys: dict[str, _Used] = {}
        self._addresses: OrderedDict[str, _Used] = OrderedDict()
        self._others = _Used(clock())
        """Usage shared by the addresses above the maximum number."""

    async def take(
        self, caller: Caller, characters: int, _month: str, month_used: int
    ) -> LimitStatus:
        """See `RateLimiter`; never suspends, so that it is atomic."""
        limits, now_s = caller.limits, self._clock()
        used = self._used(caller, now_s)
        _refill(used, limits, now_s)
        refused = _refusal(limits, used, characters, month_used)
        if refused is None:
            used.requests += 1
            used.characters += characters
            used.running += 1
            month_used += characters
        return LimitStatus(
            limits, used.requests, used.characters, month_used, used.running, refused, used
        )

    async def give_back(
        self, _caller: Caller, status: LimitStatus, _month: str, _characters: int
    ) -> None:
        """See `RateLimiter`; the usage counter counts the month."""
        status.lease.running -= 1

    async def refund(self, caller: Caller, month: str, characters: int) -> None:
        """See `RateLimiter`; the usage counter counts the month."""

    async def month_used(self, _caller: Caller, _month: str, own: int) -> int:
        """See `RateLimiter`."""
        return own

    async def close(self) -> None:
        """See `RateLimiter`."""

    def _used(self, caller: Caller, now_s: float) -> _Used:
        if caller.key_id is not None:
            return self._keys.setdefault(caller.name, _Used(now_s))
        table = self._addresses
        if (used := table.get(caller.name)) is not None:
            table.move_to_end(caller.name)
            return used
        if len(table) >= _MOST_ANONYMOUS:
            oldest, used = next(iter(table.items()))
            if used.running or now_s - used.at_s < MINUTE_S:
                # Removing it would reset its limits: a client with many addresses could do that.
                return self._others
            del table[oldest]
        return table.setdefault(caller.name, _Used(now_s))


def _refill(used: _Used, limits: Limits, now_s: float) -> None:
    minutes = (now_s - used.at_s) / MINUTE_S
    used.requests = max(0.0, used.requests - minutes * (limits.requests_per_minute or 0))
    used.characters = max(0.0, used.characters - minutes * (limits.characters_per_minute or 0))
    if limits.requests_per_minute is None:
        used.requests = 0.0
    if limits.characters_per_minute is None:
        used.characters = 0.0
    used.at_s = now_s


def _refusal(limits: Limits, used: _Used, characters: int, month_used: int) -> Name | None:
    """Returns the limit that a request exceeds, or None."""
    if _is_above(month_used + characters, limits.characters_per_month):
        return "month"
    if _is_above(used.running + 1, limits.concurrent_requests):
        return "concurrent"
    if _is_above(used.requests + 1, limits.requests_per_minute):
        return "requests"
    if characters and _is_above(used.characters + characters, limits.characters_per_minute):
        return "characters"
    return None


def _is_above(number: float, limit: int | None) -> bool:
    return limit is not None and number > limit + _TOLERANCE


def check_number(texts: Sequence[str], each: int = 1) -> None:
    """Refuse too many texts in a request; empty ones use no characters, but time.

    Args:
        texts: the texts.
        each: number of translations of each.

    Raises:
        TooLarge: there are too many texts, or translations of them.
    """
    if len(texts) > MOST_TEXTS:
        raise TooLarge(f"{len(texts):,} texts: send up to {MOST_TEXTS:,} in a request")
    if each > 1 and len(texts) * each > MOST_TEXTS:
        raise TooLarge(
            f"{len(texts):,} texts with {each:,} translations each: request up to "
            f"{MOST_TEXTS:,} translations"
        )


def check_size(limits: Limits, characters: int) -> None:
    """Refuse a request that would be too large at any time.

    Raises:
        TooLarge: it has more characters than the limit per request, per minute or per month.
    """
    for limit, bound in (
        (limits.characters_per_request, "a request may have at most"),
        (limits.characters_per_minute, "the limit per minute is"),
        (limits.characters_per_month, "the limit per month is"),
    ):
        if _is_above(characters, limit):
            raise TooLarge(
                f"the text has {characters:,} characters, but {bound} {limit:,}: send less in a "
                "request"
            )


def refusal(status: LimitStatus, characters: int, month_end: datetime) -> GatewayError:
    """Returns the error for a refused request.

    Args:
        status: status with the limit that refused it.
        characters: number of characters of the request.
        month_end: beginning of the next month, UTC.
    """
    limits = status.limits
    if status.refused == "month":
        return QuotaUsedUp(
            f"the text has {characters:,} characters, and {status.month:,} of the "
            f"{limits.characters_per_month:,} of this month are used: the next month begins on "
            f"{month_end:%Y-%m-%d} at 00:00 UTC",
            month_end.timestamp() - time.time(),
        )
    if status.refused == "concurrent":
        return TooManyRequests(
            f"{limits.concurrent_requests} concurrent requests are allowed: wait for one to end",
            _RETRY_S,
        )
    if status.refused == "requests":
        limit = limits.requests_per_minute or 0
        return TooManyRequests(
            f"{limit:,} requests per minute are allowed: send them more slowly",
            _time_s(status.requests + 1, limit),
        )
    limit = limits.characters_per_minute or 0
    return TooManyRequests(
        f"{limit:,} characters per minute are allowed: send them more slowly",
        _time_s(status.characters + characters, limit),
    )


def _time_s(used: float, limit: int) -> float | None:
    """Returns the time until the usage is below the limit again; None: never."""
    return max(0.0, used - limit) * MINUTE_S / limit if limit else None

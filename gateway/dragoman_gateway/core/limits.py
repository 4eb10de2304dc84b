"""Limits of callers: how much was used of each, and whether one more request fits.

A limit of a minute is a bucket: as much may be used at once as the limit says, and it refills
evenly within a minute. So over a time of t minutes at most 1 + t times the limit is used.
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
"""Addresses whose use is counted apart."""
_TOLERANCE = 1e-6
"""Of sums of parts of a request or a character."""
_RETRY_S = 1.0
"""When another request may have ended."""
MOST_TEXTS = 20_000
"""Of a request; as many sentences as the server takes by default."""


@dataclass(frozen=True, slots=True)
class LimitStatus:
    """What a caller has used of its limits, after a request was admitted or refused.

    Attributes:
        limits: the caller's.
        requests: used of the requests of a minute.
        characters: used of the characters of a minute.
        month: characters used in this month.
        running: its requests at present.
        refused: by which limit; None: admitted.
        lease: identifies the running request; `give_back` needs it.
    """

    limits: Limits
    requests: float
    characters: float
    month: int
    running: int
    refused: Name | None = None
    lease: Any = None


class RateLimiter(Protocol):
    """Counts what callers use and refuses what is above a limit, for one process or several."""

    async def take(
        self, caller: Caller, characters: int, month: str, month_used: int
    ) -> LimitStatus:
        """Use a request and characters, or nothing if that is above a limit.

        Args:
            caller: with a limit at least.
            characters: of the request.
            month: the present one.
            month_used: characters that this process knows to be used in it.
        """
        ...

    async def give_back(
        self, caller: Caller, status: LimitStatus, month: str, characters: int
    ) -> None:
        """End a request that was admitted.

        Args:
            caller: whose it is.
            status: what `take` returned.
            month: in which it was admitted.
            characters: that do not count for the month, because they were not translated.
        """
        ...

    async def refund(self, caller: Caller, month: str, characters: int) -> None:
        """Give back characters of a month, of a request that has ended before."""
        ...

    async def month_used(self, caller: Caller, month: str, own: int) -> int:
        """Characters that a caller has used in a month.

        Args:
            caller: who.
            month: which.
            own: characters that this process knows of.
        """
        ...

    async def close(self) -> None:
        """Close what was opened."""
        ...


@dataclass(slots=True)
class _Used:
    """What a caller has used of the limits of a minute, at some time."""

    at_s: float
    requests: float = 0.0
    characters: float = 0.0
    running: int = 0


class LocalRateLimiter:
    """Counts for this process alone; see `RateLimiter`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin.

        Args:
            clock: seconds since any time.
        """
        self._clock = clock
        self._keys: dict[str, _Used] = {}
        self._addresses: OrderedDict[str, _Used] = OrderedDict()
        self._others = _Used(clock())
        """Of addresses for which there is no space."""

    async def take(
        self, caller: Caller, characters: int, month: str, month_used: int
    ) -> LimitStatus:
        """See `RateLimiter`; never waits, so that nothing comes in between."""
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
        self, caller: Caller, status: LimitStatus, month: str, characters: int
    ) -> None:
        """See `RateLimiter`; the month is the usage counter's."""
        status.lease.running -= 1

    async def refund(self, caller: Caller, month: str, characters: int) -> None:
        """See `RateLimiter`; the month is the usage counter's."""

    async def month_used(self, caller: Caller, month: str, own: int) -> int:
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
                # Forgetting it would reset its limits: a stranger with many addresses could do so.
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
    """The limit that a request is above."""
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


def check_number(texts: Sequence[str]) -> None:
    """Refuse more texts than a request may have; empty ones cost no characters, but time.

    Raises:
        TooLarge: they are too many.
    """
    if len(texts) > MOST_TEXTS:
        raise TooLarge(f"{len(texts):,} texts: send up to {MOST_TEXTS:,} in a request")


def check_size(limits: Limits, characters: int) -> None:
    """Refuse a request that no waiting would make fit.

    Raises:
        TooLarge: it has more characters than a request may have, or than a minute.
    """
    if _is_above(characters, limits.characters_per_request):
        raise TooLarge(
            f"the text has {characters:,} characters, a request at most "
            f"{limits.characters_per_request:,}: send less at once"
        )
    if _is_above(characters, limits.characters_per_minute):
        raise TooLarge(
            f"the text has {characters:,} characters, while {limits.characters_per_minute:,} may "
            "be used in a minute: send less at once"
        )


def refusal(status: LimitStatus, characters: int, month_end: datetime) -> GatewayError:
    """The error for a request that was refused.

    Args:
        status: that says by which limit.
        characters: of the request.
        month_end: when the next month begins, UTC.
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
            f"{limits.concurrent_requests} requests at once are allowed: wait for one of them",
            _RETRY_S,
        )
    if status.refused == "requests":
        limit = limits.requests_per_minute or 0
        return TooManyRequests(
            f"{limit:,} requests a minute are allowed: send them more slowly",
            _time_s(status.requests + 1, limit),
        )
    limit = limits.characters_per_minute or 0
    return TooManyRequests(
        f"{limit:,} characters a minute are allowed: send them more slowly",
        _time_s(status.characters + characters, limit),
    )


def _time_s(used: float, limit: int) -> float | None:
    """Until so much is not above the limit; None: never."""
    return max(0.0, used - limit) * MINUTE_S / limit if limit else None

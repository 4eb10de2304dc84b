"""Rate limits shared by several gateways through a Redis server.

Each request runs one script, which Redis executes atomically: it refills the buckets, counts the
running requests, sums up the month, and counts the request if it is admitted. Characters of a month
are counted separately for each gateway, and each gateway sends the count of its own store. So the
counts are soon right again even if Redis has lost all data.

While Redis does not answer, each gateway applies the limits on its own: with n gateways, callers
can then use up to n times their limits instead of nothing. If only the data of one caller is
damaged, that holds for this caller.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import sqlite3
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from dragoman.kernel.errors import UsageError
from dragoman_gateway.access.limits import LimitStatus, Name, RateLimiter
from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.store import Store

if TYPE_CHECKING:
    import redis.asyncio

_Result = TypeVar("_Result")
_LOG = logging.getLogger(__name__)
_CONNECTIONS = 32
"""Maximum number of connections; further requests wait for one."""
_ANSWER_S = 1.0
"""Timeout of Redis."""
_PAUSE_S = 1.0
"""How long Redis is not used if it did not answer."""
_LOG_PAUSE_S = 60.0
_LEASE_S = 60
"""Time after which a running request no longer counts, unless its gateway renews the lease."""
_RENEW_S = 20.0
_MOST_LOST = 1000
_REFUSALS: tuple[Name | None, ...] = (None, "month", "concurrent", "requests", "characters")
_NO_LIMIT = -1
"""Stands for None in scripts."""
_TAKE = """
local buckets, running, months = KEYS[1], KEYS[2], KEYS[3]
local rpm, cpm, cpmonth, concurrent = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]),
    tonumber(ARGV[4])
local size, gateway, own, lease, lease_s = tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7]), ARGV[8],
    tonumber(ARGV[9])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1000000

local requests, characters = 0, 0
local found = redis.call('HMGET', buckets, 'at', 'requests', 'characters')
if found[1] then
    local minutes = math.max(0, now - tonumber(found[1])) / 60
    if rpm >= 0 then requests = math.max(0, tonumber(found[2]) - minutes * rpm) end
    if cpm >= 0 then characters = math.max(0, tonumber(found[3]) - minutes * cpm) end
end
redis.call('ZREMRANGEBYSCORE', running, '-inf', now)
local count = redis.call('ZCARD', running)
local written = tonumber(redis.call('HGET', months, gateway) or '0')
if written < own then redis.call('HSET', months, gateway, own) end
local month = 0
for _, one in ipairs(redis.call('HVALS', months)) do month = month + tonumber(one) end

local refused = 0
if cpmonth >= 0 and month + size > cpmonth then refused = 1
elseif concurrent >= 0 and count + 1 > concurrent then refused = 2
elseif rpm >= 0 and requests + 1 > rpm + 1e-6 then refused = 3
elseif cpm >= 0 and size > 0 and characters + size > cpm + 1e-6 then refused = 4
else
    requests, characters, month, count = requests + 1, characters + size, month + size, count + 1
    redis.call('HINCRBY', months, gateway, size)
    redis.call('ZADD', running, now + lease_s, lease)
    redis.call('EXPIRE', running, 2 * lease_s)
end
redis.call('HSET', buckets, 'at', string.format('%.6f', now), 'requests',
    string.format('%.6f', requests), 'characters', string.format('%.6f', characters))
redis.call('EXPIRE', buckets, 120)
redis.call('EXPIRE', months, 40 * 86400)
return {refused, string.format('%.6f', requests), string.format('%.6f', characters), month, count}
"""

_RENEW = """
local clock = redis.call('TIME')
local until_s = tonumber(clock[1]) + tonumber(clock[2]) / 1000000 + tonumber(ARGV[2])
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then
    redis.call('ZADD', KEYS[1], until_s, ARGV[1])
    redis.call('EXPIRE', KEYS[1], 2 * tonumber(ARGV[2]))
end
"""
"""Uses Redis's clock, like all scripts: the clock of a gateway may be wrong."""

_END = """
local is_counted = redis.call('ZREM', KEYS[1], ARGV[1]) == 1 or ARGV[1] == ''
local unused = tonumber(ARGV[3])
if is_counted and unused > 0 then redis.call('HINCRBY', KEYS[2], ARGV[2], -unused) end
"""
"""Refunds a request with a lease only once, however often it is sent."""


class RedisRateLimiter:
    """Counts for all gateways that use the same Redis; see `RateLimiter`."""

    def __init__(self, url: str, store: Store, otherwise: RateLimiter) -> None:
        """Prepare; the first request connects.

        Args:
            url: URL of the server.
            store: store of this gateway, which has its id.
            otherwise: counts while Redis is not available.

        Raises:
            UsageError: redis-py is not installed, or the URL is wrong.
        """
        self._client, self._answers, self._errors = _connect(url)
        self._store, self._otherwise = store, otherwise
        self._take = self._client.register_script(_TAKE)
        self._renew = self._client.register_script(_RENEW)
        self._end_script = self._client.register_script(_END)
        self._gateway_id: str | None = None
        self._failed_s: float | None = None
        """Time of the last attempt if Redis did not answer."""
        self._logged_s = -math.inf
        self._leases: dict[str, str] = {}
        """Key of the set by lease."""
        self._lost: deque[_Ended] = deque(maxlen=_MOST_LOST)
        """Requests that Redis may still count because it did not answer."""
        self._renewing: asyncio.Task[None] | None = None
        self._unfinished: set[asyncio.Task[Any]] = set()
        """Tasks that run to their end even if their request was cancelled."""

    async def take(
        self, caller: Caller, characters: int, month: str, month_used: int
    ) -> LimitStatus:
        """See `RateLimiter`."""
        taking = self._kept(self._taken(caller, characters, month, month_used))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            # Redis may have counted the request, so its lease must be ended.
            self._kept(self._undo(taking, caller, month, characters))
            raise

    async def _undo(
        self, taking: asyncio.Task[LimitStatus], caller: Caller, month: str, characters: int
    ) -> None:
        status = await taking
        if not status.refused:
            await self.give_back(caller, status, month, characters)

    def _kept(self, work: Coroutine[Any, Any, _Result]) -> asyncio.Task[_Result]:
        """Create a task and keep a reference: the event loop has only weak references."""
        task = asyncio.create_task(work)
        self._unfinished.add(task)
        task.add_done_callback(self._unfinished.discard)
        return task

    async def _taken(
        self, caller: Caller, characters: int, month: str, month_used: int
    ) -> LimitStatus:
        limits, lease = caller.limits, secrets.token_hex(8)
        if self._failed_s is not None:
            if time.monotonic() - self._failed_s < _PAUSE_S:
                return await self._otherwise.take(caller, characters, month, month_used)
            # This request tries Redis again; others do not wait for it.
            self._failed_s = time.monotonic()
        bounds = (
            *(limits.requests_per_minute, limits.characters_per_minute),
            *(limits.characters_per_month, limits.concurrent_requests),
        )
        numbers = [_NO_LIMIT if bound is None else bound for bound in bounds]
        keys = _names(caller, month)
        sent: list[str | int] = [
            *numbers,
            characters,
            await self._own_id(),
            month_used,
            lease,
            _LEASE_S,
        ]
        try:
            async with asyncio.timeout(_ANSWER_S):
                reply: Sequence[Any] = await self._take(keys=keys, args=sent)
        except self._errors as error:
            self._note_failure(error)
            if self._failed_s is not None:
                # If this gateway admits it, its own count has the characters.
                self._lost.append(_Ended(keys[1], lease, keys[2], characters))
            return await self._otherwise.take(caller, characters, month, month_used)
        self._failed_s = None
        if self._lost:
            self._kept(self._end_lost())
        refused = _REFUSALS[int(reply[0])]
        if refused is None:
            self._leases[lease] = keys[1]
            if self._renewing is None:
                self._renewing = asyncio.create_task(self._renew_regularly())
        requests, used, total, running = map(float, reply[1:])
        return LimitStatus(limits, requests, used, int(total), int(running), refused, lease)

    async def give_back(
        self, caller: Caller, status: LimitStatus, month: str, characters: int
    ) -> None:
        """See `RateLimiter`."""
        if not isinstance(status.lease, str):
            return await self._otherwise.give_back(caller, status, month, characters)
        running = self._leases.pop(status.lease, None)
        if running is None:
            return None
        # The lease ends even if the task is cancelled, as when a client disconnects.
        ended = _Ended(running, status.lease, _names(caller, month)[2], characters)
        await asyncio.shield(self._kept(self._end(ended)))
        return None

    async def refund(self, caller: Caller, month: str, characters: int) -> None:
        """See `RateLimiter`."""
        _, running, months = _names(caller, month)
        await self._end(_Ended(running, "", months, characters))  # no lease to remove

    async def month_used(self, caller: Caller, month: str, own: int) -> int:
        """See `RateLimiter`."""
        months, gateway_id = _names(caller, month)[2], await self._own_id()
        try:
            async with asyncio.timeout(_ANSWER_S):
                counts = await self._client.hgetall(months)
            counted = {str(name): int(number) for name, number in counts.items()}
        except self._errors as error:
            self._note_failure(error)
            return own
        counted[gateway_id] = max(own, counted.get(gateway_id, 0))
        return sum(counted.values())

    async def close(self) -> None:
        """See `RateLimiter`."""
        while self._unfinished:
            await asyncio.wait(self._unfinished)
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        await self._client.aclose()
        await self._client.connection_pool.disconnect()

    async def _own_id(self) -> str:
        if self._gateway_id is None:
            self._gateway_id = await self._store.write(_gateway_id)
        return self._gateway_id

    async def _end(self, ended: _Ended) -> None:
        try:
            async with asyncio.timeout(_ANSWER_S):
                sent: list[str | int] = [ended.lease, await self._own_id(), ended.unused]
                await self._end_script(keys=[ended.running, ended.months], args=sent)
        except self._errors as error:
            self._note_failure(error)
            if self._failed_s is not None:
                self._lost.append(ended)

    async def _end_lost(self) -> None:
        """End leases that would count for up to a minute, and refund characters."""
        while self._lost and self._failed_s is None:
            await self._end(self._lost.popleft())

    async def _renew_regularly(self) -> None:
        """Renew the leases of long requests."""
        while True:
            await asyncio.sleep(_RENEW_S)
            leases = dict(self._leases)
            try:
                async with asyncio.timeout(_RENEW_S):
                    for lease, running in leases.items():
                        if lease in self._leases:
                            await self._renew(keys=[running], args=[lease, _LEASE_S])
            except self._errors as error:
                self._note_failure(error)

    def _note_failure(self, error: BaseException) -> None:
        now_s = time.monotonic()
        self._failed_s = None if isinstance(error, self._answers) else now_s
        if now_s - self._logged_s >= _LOG_PAUSE_S:
            self._logged_s = now_s
            # Only the class: messages may contain the URL with the password.
            _LOG.warning(
                "Redis is not available (%s): this gateway limits alone", type(error).__name__
            )


@dataclass(frozen=True, slots=True)
class _Ended:
    """A request that ended: its keys in Redis, its lease, and the characters to refund."""

    running: str
    lease: str
    months: str
    unused: int


_Errors = tuple[type[BaseException], ...]


def _connect(url: str) -> tuple[redis.asyncio.Redis, _Errors, _Errors]:
    """Returns a client, the errors in answers of Redis, and all of its errors."""
    try:
        import redis.asyncio
    except ModuleNotFoundError as error:
        raise UsageError("limits_url: redis is not installed: pip install redis") from error
    try:
        pool = redis.asyncio.BlockingConnectionPool.from_url(
            url,
            max_connections=_CONNECTIONS,
            timeout=_ANSWER_S,
            decode_responses=True,
            socket_connect_timeout=_ANSWER_S,
            socket_timeout=_ANSWER_S,
        )
    except ValueError as error:
        message = "limits_url: give redis://HOST:PORT/NUMBER, rediss:// or unix://"
        raise UsageError(message) from error  # without the URL, which may have a password
    # ValueError: what is stored under our keys is not a number, or not UTF-8.
    answers: _Errors = (redis.asyncio.ResponseError, ValueError)
    errors: _Errors = (*answers, redis.asyncio.RedisError, OSError)
    return redis.asyncio.Redis(connection_pool=pool), answers, errors


def _names(caller: Caller, month: str) -> list[str]:
    """Returns a caller's Redis keys; the part in braces puts them on one node of a cluster."""
    counted = caller.key_id or "anonymous"
    return [
        f"dragoman:{{{counted}}}:{caller.name}:buckets",
        f"dragoman:{{{counted}}}:{caller.name}:running",
        f"dragoman:{{{counted}}}:month:{month}",
    ]


def _gateway_id(connection: sqlite3.Connection) -> str:
    """Returns the id of the store, which is created once."""
    connection.execute(
        "INSERT OR IGNORE INTO facts (name, value) VALUES ('gateway_id', ?)",
        (secrets.token_hex(8),),
    )
    query = "SELECT value FROM facts WHERE name = 'gateway_id'"
    (gateway_id,) = connection.execute(query).fetchone()
    return str(gateway_id)

"""Gateways that share limits through a real Redis have one quota; without it each limits alone."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import redis as redis_client
from dragoman_gateway.access import shared_limits
from dragoman_gateway.access.access import Access
from dragoman_gateway.core.caller import Caller, Limits
from dragoman_gateway.core.errors import InvalidInput, QuotaUsedUp, TooLarge, TooManyRequests
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.core.store import Store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.redis_server import PASSWORD, Redis, running_redis


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@contextlib.asynccontextmanager
async def gateways(url: str, count: int = 2) -> AsyncIterator[list[Access]]:
    """Gateways that have no state in common but that of Redis."""
    stores = [Store(None) for _ in range(count)]
    accesses = [Access(GatewaySettings(limits_url=url), store) for store in stores]
    for access in accesses:
        await access.open()
    try:
        yield accesses
    finally:
        for access, store in zip(accesses, stores, strict=True):
            await access.close()
            store.close()


def new_caller(limits: Limits) -> Caller:
    name = f"key{time.monotonic_ns()}"
    return Caller(name, name, limits)


async def ask(access: Access, caller: Caller, characters: int = 1, work_s: float = 0) -> bool:
    try:
        async with access.admitted(caller, characters):
            await asyncio.sleep(work_s)
    except (TooManyRequests, QuotaUsedUp):
        return False
    return True


_BUSY = """
local function now_s()
    local clock = redis.call('TIME')
    return tonumber(clock[1]) + tonumber(clock[2]) / 1000000
end
local until_s = now_s() + ARGV[1]
while now_s() < until_s do end
"""


def keep_busy(redis: Redis, duration_s: float) -> threading.Thread:
    """A thread that, once started, keeps a server busy."""
    operator = redis_client.Redis.from_url(redis.url)
    return threading.Thread(target=operator.eval, args=(_BUSY, 0, duration_s))


def until_full(operator: redis_client.Redis) -> None:
    """Wait until a server refuses to store more."""
    with contextlib.suppress(redis_client.exceptions.OutOfMemoryError):
        while True:
            operator.set("another", "value")


@pytest.mark.thorough
class TestRedis:
    """Needs a Redis server, installed or from Debian's packages."""

    @pytest.fixture(autouse=True)
    def patience(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """On a busy machine Redis may answer late, and gateways would limit alone."""
        monkeypatch.setattr(shared_limits, "_ANSWER_S", 60.0)

    @pytest.mark.parametrize(
        ("limits", "fit"),
        [
            (Limits(requests_per_minute=10), 10),
            (Limits(characters_per_minute=30), 10),
            (Limits(characters_per_month=30), 10),
            (Limits(concurrent_requests=10), 10),
        ],
    )
    async def test_two_gateways_keep_one_limit(
        self, redis: Redis, limits: Limits, fit: int
    ) -> None:
        async with gateways(redis.url) as both:
            caller, everybody = new_caller(limits), asyncio.Barrier(60)

            async def request(number: int) -> bool:
                try:
                    async with both[number % 2].admitted(caller, 3):
                        await everybody.wait()
                        return True
                except (TooManyRequests, QuotaUsedUp):
                    await everybody.wait()
                    return False

            assert sum(await asyncio.gather(*map(request, range(everybody.parties)))) == fit

    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        requests=st.lists(
            st.tuples(st.integers(0, 2), st.integers(0, 30), st.booleans()), max_size=40
        ),
        quota=st.integers(0, 200),
        concurrent=st.integers(1, 5),
    )
    async def test_concurrent_gateways_never_exceed_a_quota(
        self, redis: Redis, requests: list[tuple[int, int, bool]], quota: int, concurrent: int
    ) -> None:
        async with gateways(redis.url, 3) as all_of_them:
            caller = new_caller(Limits(characters_per_month=quota, concurrent_requests=concurrent))
            running = counted = 0

            async def run_request(number: int, characters: int, fails: bool) -> None:
                nonlocal running, counted
                with contextlib.suppress(TooLarge, TooManyRequests, QuotaUsedUp, InvalidInput):
                    async with all_of_them[number].admitted(caller, characters):
                        running, counted = running + 1, counted + characters
                        try:
                            assert running <= concurrent
                            assert counted <= quota
                            await asyncio.sleep(0)
                            if fails:
                                counted -= characters
                                raise InvalidInput("no")
                        finally:
                            running -= 1

            await asyncio.gather(*(run_request(*request) for request in requests))
            for access in all_of_them:
                assert (await access.usage(caller)).characters == counted

    async def test_a_refused_request_fits_after_its_retry_time(self, redis: Redis) -> None:
        async with gateways(redis.url) as both:
            caller = new_caller(Limits(requests_per_minute=120))

            async def use_up() -> None:
                while True:  # on a slow machine more than these 120
                    async with both[0].admitted(caller, 1):
                        pass

            with pytest.raises(TooManyRequests) as caught:
                await use_up()
            assert caught.value.retry_after_s is not None
            assert 0 < caught.value.retry_after_s <= 0.5
            await asyncio.sleep(caught.value.retry_after_s + 0.01)
            assert await ask(both[1], caller)

    async def test_characters_of_work_that_failed_later_are_refunded(self, redis: Redis) -> None:
        async with gateways(redis.url) as both:
            caller = new_caller(Limits(characters_per_month=100))
            assert await ask(both[0], caller, 100)
            await both[0].refund(caller, 60, time.time())
            assert (await both[1].usage(caller)).characters == 40
            assert not await ask(both[1], caller, 61)
            assert await ask(both[1], caller, 60)

    async def test_the_month_survives_a_redis_that_loses_its_data(self, redis: Redis) -> None:
        async with gateways(redis.url) as both:
            caller = new_caller(Limits(characters_per_month=100))
            assert await ask(both[0], caller, 40)
            assert await ask(both[1], caller, 40)
            redis.stop()
            redis.start()
            # Each reports its counts with its next request; until then its part is missing.
            assert await ask(both[0], caller, 0)
            assert await ask(both[1], caller, 0)
            await asyncio.sleep(shared_limits._PAUSE_S)
            assert await ask(both[0], caller, 0)
            assert await ask(both[1], caller, 0)
            assert not await ask(both[0], caller, 21)
            assert await ask(both[0], caller, 20)

    async def test_a_killed_gateway_holds_its_slots_for_a_while(
        self, redis: Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shared_limits, "_LEASE_S", 3)
        async with gateways(redis.url) as both:
            caller = new_caller(Limits(concurrent_requests=1))
            context = both[0].admitted(caller, 1)
            await context.__aenter__()  # and never leaves
            assert not await ask(both[1], caller)
            await asyncio.sleep(3.1)
            assert await ask(both[1], caller)
            await context.__aexit__(None, None, None)

    async def test_a_long_request_keeps_its_slot(
        self, redis: Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shared_limits, "_LEASE_S", 3)
        monkeypatch.setattr(shared_limits, "_RENEW_S", 0.2)
        monkeypatch.setattr(time, "time", lambda: 86_400.0)  # a gateway whose clock is wrong
        async with gateways(redis.url) as both:
            caller = new_caller(Limits(concurrent_requests=1))
            async with both[0].admitted(caller, 1):
                await asyncio.sleep(4)
                assert not await ask(both[1], caller)
            assert await ask(both[1], caller)


@pytest.mark.thorough
class TestFaultyRedis:
    """Needs a Redis server, too."""

    @pytest.mark.parametrize("fault", ["away", "slow", "full", "other types", "no numbers"])
    async def test_a_faulty_redis_neither_delays_requests_nor_lifts_limits(
        self, redis: Redis, fault: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        operator = redis_client.Redis.from_url(redis.url)

        def break_it(caller: Caller) -> None:
            names = shared_limits._names(caller, f"{datetime.now(UTC):%Y-%m}")
            if fault == "away":
                redis.stop()
            elif fault == "slow":
                operator.client_pause(2500)
            elif fault == "full":
                operator.config_set("maxmemory", 1)
                until_full(operator)
            else:
                operator.delete(*names)
                for name in names:
                    if fault == "other types":
                        operator.set(name, "text")
                    else:
                        operator.hset(name, "name", b"\xff")

        try:
            async with gateways(redis.url) as both:
                caller = new_caller(Limits(5, None, 1000, None, 5))
                async with both[0].admitted(caller, 1):  # ends while Redis is faulty
                    break_it(caller)
                    begun_s = time.monotonic()
                    results = await asyncio.gather(*(ask(both[0], caller) for _ in range(20)))
                    # A full Redis runs the script: its first command needs no memory.
                    assert sum(results) == (4 if fault == "full" else 5)
                    assert (await both[0].usage(caller)).characters == 1 + sum(results)
                assert time.monotonic() - begun_s < 3 * shared_limits._ANSWER_S + 1
                assert len(caplog.records) == (0 if fault == "full" else 1)
                if fault == "away":
                    redis.start()
                if fault == "full":
                    operator.config_set("maxmemory", 0)
                if fault in ("away", "slow"):
                    await asyncio.sleep(shared_limits._PAUSE_S + 0.1)
                other = new_caller(Limits(requests_per_minute=4))
                assert sum([await ask(both[number % 2], other) for number in range(10)]) == 4
        finally:
            redis.stop()
            redis.start()

    async def test_a_late_redis_holds_no_slots(self, redis: Redis) -> None:
        busy = keep_busy(redis, 2.5)
        async with gateways(redis.url) as both:
            caller = new_caller(Limits(concurrent_requests=1))
            assert await ask(both[0], caller)
            busy.start()
            await asyncio.sleep(0.1)
            assert await ask(both[0], caller)  # Redis counts it later
            await asyncio.to_thread(busy.join)
            await asyncio.sleep(shared_limits._PAUSE_S)
            assert not await ask(both[1], caller)
            assert await ask(both[0], new_caller(Limits(concurrent_requests=1)))
            await asyncio.gather(*_limiter(both[0])._unfinished)
            assert await ask(both[1], caller)

    @pytest.mark.parametrize("is_late_at", ["the begin", "the end"])
    async def test_a_late_redis_counts_no_failed_request(
        self, redis: Redis, is_late_at: str
    ) -> None:
        operator = redis_client.Redis.from_url(redis.url)
        busy = keep_busy(redis, 2.5)
        async with gateways(redis.url) as both:
            caller = new_caller(Limits(characters_per_month=100))
            assert await ask(both[0], caller, 0)  # connects
            if is_late_at == "the begin":  # Redis reads the command later
                busy.start()
            await asyncio.sleep(0.1)

            async def fail() -> None:
                async with both[0].admitted(caller, 60):
                    if is_late_at == "the end":  # no command can be sent on a new connection
                        operator.client_kill_filter(_type="normal", skipme=True)
                        busy.start()
                        await asyncio.sleep(0.1)
                    raise InvalidInput("no")

            with pytest.raises(InvalidInput):
                await fail()
            await asyncio.to_thread(busy.join)
            await asyncio.sleep(shared_limits._PAUSE_S)
            assert await ask(both[0], caller, 0)
            await asyncio.gather(*_limiter(both[0])._unfinished)
            assert (await both[1].usage(caller)).characters == 0

    async def test_a_wrong_password_is_logged_without_it(
        self, redis: Redis, caplog: pytest.LogCaptureFixture
    ) -> None:
        url = redis.url.replace(PASSWORD, "wr0ng")
        async with gateways(url) as both:
            assert await ask(both[0], new_caller(Limits(requests_per_minute=1)))
        assert "AuthenticationError" in caplog.text
        assert "wr0ng" not in caplog.text


async def test_without_redis_each_gateway_limits_alone(caplog: pytest.LogCaptureFixture) -> None:
    async with gateways(f"redis://:{PASSWORD}@127.0.0.1:1/0") as both:
        caller = new_caller(Limits(requests_per_minute=2, concurrent_requests=1))
        answers = [[await ask(access, caller) for _ in range(4)] for access in both]
    assert answers == [[True, True, False, False]] * 2
    assert len(caplog.records) == 2  # one for each gateway
    assert "this gateway limits alone" in caplog.text
    assert PASSWORD not in caplog.text


async def test_a_hanging_redis_delays_one_request_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_limits, "_ANSWER_S", 2.0)
    monkeypatch.setattr(shared_limits, "_PAUSE_S", 1.0)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()

        async with gateways(f"redis://127.0.0.1:{silent.getsockname()[1]}") as both:
            caller = new_caller(Limits(requests_per_minute=99))

            async def timed() -> float:
                begun_s = time.monotonic()
                assert await ask(both[0], caller)
                return time.monotonic() - begun_s

            first_s = [await timed() for _ in range(3)]
            await asyncio.sleep(shared_limits._PAUSE_S)
            later_s = await asyncio.gather(*(timed() for _ in range(20)))
    assert [sum(one_s >= 2 for one_s in times_s) for times_s in (first_s, later_s)] == [1, 1]


def _limiter(access: Access) -> shared_limits.RedisRateLimiter:
    limiter = access._limiter
    assert isinstance(limiter, shared_limits.RedisRateLimiter)
    return limiter


@pytest.mark.parametrize("is_admitted", [False, True])
async def test_a_request_cancelled_during_admission_is_refunded(is_admitted: bool) -> None:
    given: list[shared_limits._Ended] = []
    taking, working = asyncio.Event(), asyncio.Event()

    async def take(**_: object) -> list[Any]:
        taking.set()
        await asyncio.sleep(0.1)
        return [0, "1", "5", 5, 1]

    async def end(ended: shared_limits._Ended) -> None:
        await asyncio.sleep(0.1)
        given.append(ended)

    async with gateways("redis://localhost:1/0", 1) as access:
        limiter = _limiter(access[0])
        limiter._take, limiter._end = take, end  # type: ignore[method-assign, assignment]
        caller = new_caller(Limits(concurrent_requests=1))

        async def request() -> None:
            async with access[0].admitted(caller, 5):
                working.set()
                await asyncio.sleep(60)

        task = asyncio.create_task(request())
        await (working if is_admitted else taking).wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await limiter.close()
        assert limiter._leases == {}
        assert [ended.unused for ended in given] == [0 if is_admitted else 5]
        assert given[0].running == f"dragoman:{{{caller.name}}}:{caller.name}:running"

"""Who is admitted, with which limits; races of keys and quotas."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from dragoman_gateway.access.access import Access
from dragoman_gateway.access.keys import add_key, revoke_key
from dragoman_gateway.access.record import begin_record
from dragoman_gateway.access.usage import month_usage
from dragoman_gateway.core.caller import NO_LIMITS, Caller, Limits
from dragoman_gateway.core.errors import (
    GatewayError,
    InvalidInput,
    KeyMissing,
    KeyRefused,
    QuotaUsedUp,
    TooLarge,
    TooManyRequests,
)
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.core.store import Store
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.kernel.errors import UsageError

EVERYWHERE = "0.0.0.0"


@asynccontextmanager
async def opened(**how: Any) -> AsyncIterator[tuple[Access, Store]]:
    store = Store(None)
    access = Access(GatewaySettings(**how), store)
    await access.open()
    try:
        yield access, store
    finally:
        await access.close()
        store.close()


async def new_key(store: Store, limits: Limits = NO_LIMITS, **how: Any) -> str:
    _, secret = await store.write(lambda db: add_key(db, "", limits=limits, **how))
    return secret


async def new_caller(access: Access, store: Store, limits: Limits) -> Caller:
    """The caller of a new key."""
    return await access.caller(await new_key(store, limits), "own", "")


async def use(access: Access, caller: Caller, characters: int, work_s: float = 0) -> None:
    async with access.admitted(caller, characters):
        await asyncio.sleep(work_s)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
async def test_on_loopback_without_a_key_access_is_open(address: str) -> None:
    async with opened(address=address) as (access, _):
        for secret in (None, "", "anything"):
            caller = await access.caller(secret, "own", "127.0.0.1")
            assert (caller.key_id, caller.limits) == (None, Limits())
        assert await access.is_open()


@pytest.mark.parametrize(
    "how",
    [
        {"address": EVERYWHERE},
        {"address": "::"},
        {"address": "192.168.1.5"},
        {"address": "myhost"},
        {"trusted_proxies": ("127.0.0.1",)},
        {"public_url": "https://translate.example"},
    ],
)
async def test_elsewhere_or_behind_a_proxy_keys_are_required_from_the_start(
    how: dict[str, Any],
) -> None:
    async with opened(**how) as (access, _):
        assert not await access.is_open()
        assert not await access.needs_no_key()
        for secret in (None, ""):
            with pytest.raises(KeyMissing, match="dragoman keys add"):
                await access.caller(secret, "own", "127.0.0.1")
        with pytest.raises(KeyRefused):
            await access.caller("anything", "own", "127.0.0.1")


@pytest.mark.parametrize(
    ("protocol", "field"),
    [
        ("own", "as Authorization: Bearer KEY,"),
        ("deepl", "as Authorization: DeepL-Auth-Key KEY,"),
        ("libretranslate", "as api_key,"),
        ("riva", "as gRPC metadata authorization: Bearer KEY,"),
    ],
)
async def test_a_missing_key_is_named_as_its_protocol_sends_it(protocol: str, field: str) -> None:
    async with opened(address=EVERYWHERE) as (access, _):
        with pytest.raises(KeyMissing, match=field):
            await access.caller(None, protocol, "127.0.0.1")


async def test_the_first_key_closes_access_and_revoking_it_does_not_open_it() -> None:
    async with opened() as (access, store):
        await access.caller(None, "own", "127.0.0.1")
        key, secret = await store.write(lambda db: add_key(db, ""))
        await asyncio.sleep(0.6)
        with pytest.raises(KeyMissing):
            await access.caller(None, "own", "127.0.0.1")
        assert (await access.caller(secret, "own", "127.0.0.1")).key_id == key.id
        await store.write(lambda db: revoke_key(db, key.id))
        await asyncio.sleep(0.6)
        assert not await access.is_open()
        with pytest.raises(KeyMissing):
            await access.caller(None, "own", "127.0.0.1")
        with pytest.raises(KeyRefused):
            await access.caller(secret, "own", "127.0.0.1")


async def test_anonymous_use_has_limits_for_each_address() -> None:
    how = {"address": EVERYWHERE, "anonymous": True, "anonymous_requests_per_minute": 2}
    async with opened(**how) as (access, store):
        first = await access.caller(None, "own", "10.0.0.1")
        other = await access.caller("ignored while no key exists", "own", "10.0.0.2")
        assert first.limits.requests_per_minute == other.limits.requests_per_minute == 2
        for caller in (first, other):
            await use(access, caller, 1)
            await use(access, caller, 1)
            with pytest.raises(TooManyRequests, match="2 requests per minute"):
                await use(access, caller, 1)
        # An existing key has its own limits; an unknown one is refused.
        secret = await new_key(store)
        await asyncio.sleep(0.6)
        assert (await access.caller(secret, "own", "10.0.0.1")).limits == Limits()
        with pytest.raises(KeyRefused):
            await access.caller("made up", "own", "10.0.0.1")
        assert (await access.caller("", "own", "10.0.0.1")).name == first.name


async def test_an_ipv6_site_is_one_address() -> None:
    async with opened(address=EVERYWHERE, anonymous=True) as (access, _):
        addresses = (
            *("2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1"),
            *("::ffff:10.0.0.1", "10.0.0.1", "fe80::1%eth0", "odd:address"),
        )
        names = [(await access.caller(None, "own", address)).name for address in addresses]
    assert names[0] == names[1] != names[2]
    assert names[3] == names[4] == "anonymous 10.0.0.1"
    assert len({*names}) == 5


async def test_the_monthly_limit_of_anonymous_use_is_shared() -> None:
    how = {"address": EVERYWHERE, "anonymous": True, "anonymous_characters_per_month": 100}
    async with opened(**how) as (access, _):
        caller = await access.caller(None, "own", "10.0.0.1")
        other = await access.caller(None, "own", "10.0.0.2")
        await use(access, caller, 60)
        with pytest.raises(QuotaUsedUp):
            await use(access, other, 50)
        await use(access, other, 40)
        assert (await access.usage(caller)).characters == 100
        assert (await access.usage(caller)).characters_limit == 100


async def test_a_failed_request_does_not_count_for_the_month() -> None:
    # A cancelled request may have been translated, and so counts.
    async with opened(address=EVERYWHERE) as (access, store):
        caller = await new_caller(access, store, Limits(characters_per_month=10))
        for error in (InvalidInput("no"), GatewayError("no"), RuntimeError("a defect")):
            with pytest.raises(type(error)):
                async with access.admitted(caller, 10):
                    raise error
        await use(access, caller, 4)
        task = asyncio.create_task(use(access, caller, 5, 100))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        used = await access.usage(caller)
        assert (used.characters, used.requests) == (9, 5)


async def test_slots_are_released_however_requests_end() -> None:
    async with opened(address=EVERYWHERE) as (access, store):
        caller = await new_caller(access, store, Limits(concurrent_requests=1))
        for _ in range(3):
            task = asyncio.create_task(use(access, caller, 1, 100))
            await asyncio.sleep(0)
            with pytest.raises(TooManyRequests, match="1 concurrent requests"):
                await use(access, caller, 1)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            with pytest.raises(ZeroDivisionError):
                async with access.admitted(caller, 1):
                    raise ZeroDivisionError
        await use(access, caller, 1)


async def test_a_text_that_never_fits_uses_no_quota() -> None:
    async with opened(address=EVERYWHERE) as (access, store):
        limits = Limits(requests_per_minute=1, characters_per_request=5)
        caller = await new_caller(access, store, limits)
        with pytest.raises(TooLarge):
            await use(access, caller, 6)
        await use(access, caller, 5)


async def test_the_record_of_a_request_has_its_callers_usage() -> None:
    async with opened(address=EVERYWHERE) as (access, store):
        limits = Limits(requests_per_minute=1, characters_per_month=50)
        caller = await new_caller(access, store, limits)
        record = begin_record()
        await asyncio.create_task(use(access, caller, 20))  # in another task, as handlers may
        assert record.limit_status is not None
        assert (record.limit_status.requests, record.limit_status.month) == (1, 20)
        assert (record.characters, record.key_id) == (20, caller.key_id)
        record = begin_record()
        with pytest.raises(TooManyRequests):
            await use(access, caller, 20)
        assert record.limit_status is not None
        assert record.limit_status.refused == "requests"
        assert record.characters == 0


@settings(max_examples=40)
@given(
    requests=st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 3), st.sampled_from(["", "fail", "cancel"])),
        min_size=1,
        max_size=40,
    ),
    quota=st.integers(0, 200),
    concurrent=st.integers(1, 5),
)
async def test_races_never_exceed_a_quota_and_lose_no_count(
    requests: list[tuple[int, int, str]], quota: int, concurrent: int
) -> None:
    async with opened(address=EVERYWHERE) as (access, store):
        limits = Limits(characters_per_month=quota, concurrent_requests=concurrent)
        secret = await new_key(store, limits)
        running = most_running = counted = most_counted = admitted = 0

        async def ask(characters: int, turns: int, how: str) -> None:
            nonlocal running, most_running, counted, most_counted, admitted
            caller = await access.caller(secret, "own", "")
            try:
                async with access.admitted(caller, characters):
                    running, counted, admitted = running + 1, counted + characters, admitted + 1
                    most_running = max(most_running, running)
                    most_counted = max(most_counted, counted)
                    try:
                        for _ in range(turns):
                            await asyncio.sleep(0)
                        if how == "fail":
                            counted -= characters
                            raise InvalidInput("no")
                        if how == "cancel":
                            raise asyncio.CancelledError
                    finally:
                        running -= 1
            except (TooManyRequests, QuotaUsedUp, InvalidInput):
                pass

        tasks = [asyncio.create_task(ask(*request)) for request in requests]
        await asyncio.gather(*tasks, return_exceptions=True)
        caller = await access.caller(secret, "own", "")
        used = await access.usage(caller)
        assert most_running <= concurrent
        assert most_counted <= quota
        assert (used.characters, used.requests) == (counted, admitted)
        await access.close()
        written = await store.read(lambda db: month_usage(db, f"{used.begin:%Y-%m}"))
        assert written.get(caller.name, (0, 0)) == (counted, admitted)


@settings(max_examples=8)
@given(clients=st.integers(1, 30), after_s=st.floats(0, 0.2))
async def test_a_key_revoked_during_use_is_refused_to_all(clients: int, after_s: float) -> None:
    async with opened(address=EVERYWHERE) as (access, store):
        key, secret = await store.write(lambda db: add_key(db, ""))
        last_s = 0.0

        async def client() -> None:
            nonlocal last_s
            try:
                while True:
                    begun_s = time.monotonic()
                    caller = await access.caller(secret, "own", "")
                    last_s = max(last_s, begun_s)
                    await use(access, caller, 1, 0.001)
            except KeyRefused:
                return

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(client())
            await asyncio.sleep(after_s)
            await store.write(lambda db: revoke_key(db, key.id))
            revoked_s = time.monotonic()
        assert last_s - revoked_s < 1


async def test_usage_is_reset_with_a_new_month(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(address=EVERYWHERE) as (access, store):
        caller = await new_caller(access, store, Limits(characters_per_month=10))
        await use(access, caller, 10)
        with pytest.raises(QuotaUsedUp) as caught:
            await use(access, caller, 1)
        assert caught.value.retry_after_s is not None
        assert 0 < caught.value.retry_after_s <= 31 * 24 * 3600
        later_s = time.time() + caught.value.retry_after_s + 1
        monkeypatch.setattr(time, "time", lambda: later_s)
        await use(access, caller, 10)
        assert (await access.usage(caller)).characters == 10


@pytest.mark.parametrize("url", ["http://localhost:6379", "nonsense", "redis://:pa55word@h:x/0"])
async def test_a_wrong_url_of_redis_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(UsageError, match="limits_url") as caught:
        async with opened(limits_url=url):
            pass
    assert "pa55word" not in str(caught.value)


async def test_characters_of_work_that_failed_later_are_refunded() -> None:
    async with opened() as (access, store):
        caller = await new_caller(access, store, Limits(characters_per_month=10))
        await use(access, caller, 10)
        await access.refund(caller, 10, time.time())
        assert (await access.usage(caller)).characters == 0
        await use(access, caller, 10)


async def test_callers_without_a_required_key_are_strangers() -> None:
    async with opened(address=EVERYWHERE, anonymous=True) as (access, store):
        caller = await access.caller(None, "own", "10.0.0.1")
        assert caller.is_stranger
        with pytest.raises(KeyMissing, match="lists of documents need a key"):
            caller.check_owns("lists of documents")
        secret = await new_key(store)
        await asyncio.sleep(0.6)
        assert not (await access.caller(secret, "own", "10.0.0.1")).is_stranger
    async with opened(anonymous=True) as (access, _):
        assert not (await access.caller(None, "own", "127.0.0.1")).is_stranger

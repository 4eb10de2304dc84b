"""Usage is counted once, whatever fails or stops in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from dragoman_gateway.access import usage as usage_module
from dragoman_gateway.access.keys import add_key, get_key
from dragoman_gateway.access.usage import Month, UsageCounter, month_usage
from dragoman_gateway.core.errors import Unavailable
from dragoman_gateway.core.store import Store
from hypothesis import given, settings
from hypothesis import strategies as st

MONTH = "2026-11"


@asynccontextmanager
async def opened(folder: Path | None) -> AsyncIterator[tuple[UsageCounter, Store]]:
    """The usage counter of a gateway that starts and stops."""
    store = Store(folder)
    counter = UsageCounter(store)
    counter.open()
    try:
        yield counter, store
    finally:
        await counter.close()
        store.close()


async def total(counter: UsageCounter, name: str = "one") -> tuple[int, int]:
    await counter.read(name, MONTH)
    return counter.total(name, MONTH)


async def test_a_restart_loses_nothing_and_counts_nothing_twice(tmp_path: Path) -> None:
    for before in [(0, 0), (30, 10), (60, 20), (90, 30)]:
        async with opened(tmp_path) as (counter, _):
            assert await total(counter) == before
            for _ in range(10):
                counter.add("one", MONTH, 3, 1)


async def test_it_is_written_each_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_module, "_FLUSH_S", 0.02)
    async with opened(tmp_path) as (counter, store):
        counter.add("one", MONTH, 3, 1)
        await asyncio.sleep(0.2)
        assert await store.read(lambda db: month_usage(db, MONTH)) == {"one": (3, 1)}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "flush", "flush that fails", "flush beside", "read", "restart"]),
        st.sampled_from(["one", "other"]),
        st.integers(-5, 100),
    ),
    max_size=25,
)


@settings(max_examples=60)
@given(steps=STEPS)
async def test_every_order_of_events_is_counted_correctly(
    steps: list[tuple[str, str, int]],
) -> None:
    store = Store(None)
    counter = UsageCounter(store)
    expected = {"one": 0, "other": 0}
    flushes: list[asyncio.Task[None]] = []
    real = store.write

    async def failing(work: Any) -> Any:
        def half(connection: Any) -> None:
            work(connection)
            raise Unavailable("the disk is full")

        await real(half)

    for step, name, size in steps:
        if step == "add":
            counter.add(name, MONTH, size, 1)
            expected[name] += size
        elif step == "flush":
            await counter.flush()
        elif step == "flush beside":
            flushes.append(asyncio.create_task(counter.flush()))
            await asyncio.sleep(0)
        elif step == "flush that fails":
            store.write = failing  # type: ignore[method-assign]
            await asyncio.gather(counter.flush(), return_exceptions=True)
            store.write = real  # type: ignore[method-assign]
        elif step == "read":
            await counter.read(name, MONTH)
            assert counter.total(name, MONTH)[0] == expected[name]
        else:
            await asyncio.gather(*flushes, return_exceptions=True)
            await counter.close()
            counter = UsageCounter(store)
    await asyncio.gather(*flushes, return_exceptions=True)
    await counter.close()
    usage = await store.read(lambda db: month_usage(db, MONTH))
    assert {name: usage.get(name, (0, 0))[0] for name in expected} == expected
    store.close()


async def test_counts_being_written_are_not_read_twice(tmp_path: Path) -> None:
    async with opened(tmp_path) as (counter, store):
        real, is_written, go_on = store.write, asyncio.Event(), asyncio.Event()

        async def slow(work: Any) -> Any:
            outcome = await real(work)
            is_written.set()
            await go_on.wait()
            return outcome

        counter.add("one", MONTH, 3, 1)
        store.write = slow  # type: ignore[method-assign]
        flushing = asyncio.create_task(counter.flush())
        await is_written.wait()
        reading = asyncio.create_task(total(counter))
        await asyncio.wait([reading], timeout=0.1)
        go_on.set()
        await flushing
        assert await reading == (3, 1)


async def test_two_gateways_with_one_folder_add_up(tmp_path: Path) -> None:
    stores = Store(tmp_path), Store(tmp_path)
    counters = [UsageCounter(store) for store in stores]
    for _ in range(20):
        for counter in counters:
            counter.add("one", MONTH, 5, 1)
        await asyncio.gather(*(counter.flush() for counter in counters))
    counters[0].add("one", MONTH, 0, 1)
    counters[1].add("one", MONTH, 0, 1)
    for counter in counters:
        await counter.flush()
    counters[0].add("one", MONTH, 0, 1)
    await counters[0].flush()
    totals = counters[0].total("one", MONTH), counters[1].total("one", MONTH)
    for store in stores:
        store.close()
    assert totals == ((200, 43), (200, 42))


async def test_a_disk_that_is_full_for_a_while_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(usage_module, "_FLUSH_S", 0.01)
    async with opened(tmp_path) as (counter, store):
        real = store.write

        async def failing(*_: Any, **__: Any) -> Any:
            raise Unavailable("the store cannot be used: database or disk is full")

        store.write = failing  # type: ignore[method-assign]
        for _ in range(10):
            counter.add("one", MONTH, 3, 1)
            await asyncio.sleep(0.02)
        store.write = real  # type: ignore[method-assign]
        await counter.flush()
        assert await total(counter) == (30, 10)
    assert len(caplog.records) == 1
    assert "disk is full" in caplog.text


async def test_the_number_of_counts_in_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_module, "_KEPT", 5)
    async with opened(None) as (counter, store):
        for number in range(30):
            counter.add(f"key {number}", MONTH, 1, 1)
            await counter.flush()
        kept, written = (len(counter._counts), await store.read(lambda db: month_usage(db, MONTH)))
    assert kept <= 6
    assert written == {f"key {number}": (1, 1) for number in range(30)}


async def test_the_day_of_the_last_use_is_written_once_a_day(tmp_path: Path) -> None:
    async with opened(tmp_path) as (counter, store):
        key, _ = await store.write(lambda db: add_key(db, ""))
        days = []
        for day in ("2026-11-23", "2026-11-23", "2026-11-24"):
            counter.note_use(key.id, day)
            await counter.flush()
            days.append((await store.read(lambda db: get_key(db, key.id))).last_used_day)
        assert days == ["2026-11-23", "2026-11-23", "2026-11-24"]


@pytest.mark.parametrize(
    ("day", "name", "end"),
    [
        ((2026, 11, 30), "2026-11", (2026, 12, 1)),
        ((2026, 12, 31), "2026-12", (2027, 1, 1)),
        ((2028, 2, 29), "2028-02", (2028, 3, 1)),
    ],
)
def test_months(day: tuple[int, int, int], name: str, end: tuple[int, int, int]) -> None:
    month = Month.of(datetime(*day, 23, 59, 59, tzinfo=UTC).timestamp())
    assert (month.name, month.end) == (name, datetime(*end, tzinfo=UTC))
    assert month.begin == datetime(day[0], day[1], 1, tzinfo=UTC)

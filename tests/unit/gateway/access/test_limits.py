"""Limits hold for every order of requests; memory is bounded for any number of addresses."""

from __future__ import annotations

import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest
from dragoman_gateway.access import limits as limits_module
from dragoman_gateway.access.limits import LimitStatus, LocalRateLimiter, check_size, refusal
from dragoman_gateway.core.caller import Caller, Limits
from dragoman_gateway.core.errors import QuotaUsedUp, TooLarge, TooManyRequests
from hypothesis import given, settings
from hypothesis import strategies as st

_T = TypeVar("_T")
MONTH = "2026-11"
MONTH_END = datetime(2099, 1, 1, tzinfo=UTC)


def result(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine that never waits: nothing happens between its check and its use."""
    try:
        work.send(None)
    except StopIteration as stop:
        outcome: _T = stop.value
        return outcome
    raise AssertionError("it waits: something could come in between")


class Clock:
    """A clock that tests set."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def key(limits: Limits, name: str = "key") -> Caller:
    return Caller(name, name, limits)


def take(
    limiter: LocalRateLimiter, caller: Caller, characters: int = 1, used: int = 0
) -> LimitStatus:
    return result(limiter.take(caller, characters, MONTH, used))


def end(limiter: LocalRateLimiter, caller: Caller, status: LimitStatus) -> None:
    result(limiter.give_back(caller, status, MONTH, 0))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["take", "wait", "end"]),
        st.integers(0, 40),
        st.floats(0, 90, allow_nan=False),
    ),
    max_size=60,
)


@settings(max_examples=300)
@given(
    steps=STEPS,
    requests=st.none() | st.integers(1, 20),
    characters=st.none() | st.integers(1, 100),
    concurrent=st.none() | st.integers(1, 4),
)
def test_no_order_of_requests_exceeds_a_limit(
    steps: list[tuple[str, int, float]],
    requests: int | None,
    characters: int | None,
    concurrent: int | None,
) -> None:
    clock = Clock()
    limiter = LocalRateLimiter(clock)
    caller = key(Limits(requests, characters, concurrent_requests=concurrent))
    admitted: list[tuple[float, int]] = []
    running: list[LimitStatus] = []
    for step, size, time_s in steps:
        if step == "wait":
            clock.now_s += time_s
        elif step == "end" and running:
            end(limiter, caller, running.pop())
        elif step == "take":
            status = take(limiter, caller, size)
            if status.refused is None:
                admitted.append((clock.now_s, size))
                running.append(status)
        assert concurrent is None or len(running) <= concurrent
    for first in range(len(admitted)):
        for last in range(first, len(admitted)):
            minutes = (admitted[last][0] - admitted[first][0]) / 60
            between = admitted[first : last + 1]
            if requests is not None:
                assert len(between) <= requests * (1 + minutes) + 1e-3
            if characters is not None:
                total = sum(size for _, size in between if size)
                assert total <= characters * (1 + minutes) + 1e-3


@settings(max_examples=200)
@given(sizes=st.lists(st.integers(0, 50), max_size=60), limit=st.integers(1, 300))
def test_a_refused_request_fits_after_its_retry_time(sizes: list[int], limit: int) -> None:
    clock = Clock()
    limiter = LocalRateLimiter(clock)
    caller = key(Limits(requests_per_minute=max(1, limit // 20), characters_per_minute=limit))
    for size in sizes:
        if size > limit:
            continue
        status = take(limiter, caller, size)
        while status.refused is not None:
            wait_s = refusal(status, size, MONTH_END).retry_after_s
            assert wait_s is not None
            assert 0 < wait_s < 60.01
            clock.now_s += wait_s
            status = take(limiter, caller, size)
        end(limiter, caller, status)


def test_a_refused_request_uses_no_quota() -> None:
    limiter = LocalRateLimiter(Clock())
    caller = key(Limits(requests_per_minute=1, characters_per_minute=10, concurrent_requests=9))
    assert take(limiter, caller, 3).refused is None
    for _ in range(5):
        status = take(limiter, caller, 3)
        assert (status.refused, status.requests, status.characters) == ("requests", 1, 3)
    assert status.running == 1


def test_a_bucket_is_full_again_after_a_minute_and_no_fuller() -> None:
    clock = Clock()
    limiter = LocalRateLimiter(clock)
    caller = key(Limits(requests_per_minute=5))
    for wait_s in (0.0, 60.0, 3600.0):
        clock.now_s += wait_s
        refusals = [take(limiter, caller).refused for _ in range(7)]
        assert refusals == [None] * 5 + ["requests"] * 2
    clock.now_s += 12.1
    assert [take(limiter, caller).refused for _ in range(2)] == [None, "requests"]


def test_limits_of_zero_refuse_everything() -> None:
    limiter = LocalRateLimiter(Clock())
    status = take(limiter, key(Limits(requests_per_minute=0)))
    assert status.refused == "requests"
    assert refusal(status, 1, MONTH_END).retry_after_s is None


def test_changed_limits_apply_at_once() -> None:
    clock = Clock()
    limiter = LocalRateLimiter(clock)
    assert take(limiter, key(Limits(requests_per_minute=1))).refused is None
    assert take(limiter, key(Limits(requests_per_minute=1))).refused == "requests"
    assert take(limiter, key(Limits(requests_per_minute=2))).refused is None
    assert take(limiter, key(Limits())).refused is None


def test_the_month_counts_used_and_requested_characters() -> None:
    limiter = LocalRateLimiter(Clock())
    caller = key(Limits(characters_per_month=100))
    assert take(limiter, caller, 10, 90).refused is None
    status = take(limiter, caller, 11, 90)
    assert status.refused == "month"
    error = refusal(status, 11, MONTH_END)
    assert isinstance(error, QuotaUsedUp)
    assert error.retry_after_s == pytest.approx(MONTH_END.timestamp() - time.time(), abs=60)
    assert "90 of the 100 of this month are used: the next month begins on 2099-01-01" in str(error)


def test_one_caller_does_not_use_another_callers_limits() -> None:
    limiter = LocalRateLimiter(Clock())
    limits = Limits(requests_per_minute=1)
    assert take(limiter, key(limits, "one")).refused is None
    assert take(limiter, key(limits, "other")).refused is None
    assert take(limiter, Caller("anonymous 10.0.0.1", None, limits)).refused is None
    assert take(limiter, Caller("anonymous 10.0.0.2", None, limits)).refused is None
    assert take(limiter, Caller("anonymous 10.0.0.2", None, limits)).refused == "requests"


def test_the_number_of_addresses_is_limited_and_many_gain_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits_module, "_MOST_ANONYMOUS", 100)
    clock = Clock()
    limiter = LocalRateLimiter(clock)
    limits = Limits(requests_per_minute=2)

    def ask(number: int) -> LimitStatus:
        return take(limiter, Caller(f"anonymous {number}", None, limits))

    refusals = [ask(number).refused for number in range(10_000)]
    assert len(limiter._addresses) == 100
    # Each of the first hundred has its own share; all others have one together.
    assert refusals.count(None) == 102
    assert ask(0).refused is None
    assert ask(0).refused == "requests"
    clock.now_s += 61
    assert ask(20_000).refused is None
    assert len(limiter._addresses) == 100


def test_requests_of_forgotten_addresses_are_released_correctly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits_module, "_MOST_ANONYMOUS", 1)
    clock = Clock()
    limiter = LocalRateLimiter(clock)
    limits = Limits(concurrent_requests=1)
    caller, other = (Caller(f"anonymous {n}", None, limits) for n in (1, 2))
    first, second = take(limiter, caller), take(limiter, other)
    end(limiter, caller, first)
    clock.now_s += 100
    third = take(limiter, other)  # now it is counted separately
    assert third.refused is None
    end(limiter, other, second)
    end(limiter, other, third)
    assert limiter._others.running == 0
    assert all(used.running == 0 for used in limiter._addresses.values())


def test_requests_that_can_never_fit_are_too_large() -> None:
    with pytest.raises(TooLarge, match="11 characters, but a request may have at most 10"):
        check_size(Limits(characters_per_request=10), 11)
    with pytest.raises(TooLarge, match="limit per minute is 10"):
        check_size(Limits(characters_per_minute=10), 11)
    with pytest.raises(TooLarge, match="limit per month is 10"):
        check_size(Limits(characters_per_month=10), 11)
    check_size(Limits(10, 10, 10, 10), 10)
    check_size(Limits(), 10**9)


def test_too_many_concurrent_requests_may_retry_soon() -> None:
    limiter = LocalRateLimiter(Clock())
    caller = key(Limits(concurrent_requests=2))
    first = take(limiter, caller)
    take(limiter, caller)
    error = refusal(take(limiter, caller), 1, MONTH_END)
    assert isinstance(error, TooManyRequests)
    assert error.retry_after_s == 1
    end(limiter, caller, first)
    assert take(limiter, caller).refused is None

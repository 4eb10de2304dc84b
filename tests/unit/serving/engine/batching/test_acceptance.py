from __future__ import annotations

import pytest
from dragoman_serving.engine.batching.acceptance import Acceptance, Estimate
from dragoman_serving.engine.errors import DeadlineExceeded, Overloaded


def of(wait_s: float, left_s: float, own_s: float = 0.1, waiting: int = 9) -> Estimate:
    return Estimate(waiting, wait_s, own_s, left_s, is_busy=waiting > 0)


def test_a_request_may_wait_twice_as_long_as_estimated() -> None:
    Acceptance().check(of(wait_s=4.9, left_s=10))
    with pytest.raises(Overloaded, match=r"about 5.0 s, and the request's time is 10.0 s"):
        Acceptance().check(of(wait_s=5.0, left_s=10))


def test_after_a_refusal_the_line_must_get_short_until_it_was_empty() -> None:
    acceptance = Acceptance()
    with pytest.raises(Overloaded):
        acceptance.check(of(wait_s=6, left_s=10))
    with pytest.raises(Overloaded, match="try again in 3 s"):
        acceptance.check(of(wait_s=3, left_s=10))
    acceptance.check(of(wait_s=0.5, left_s=10))
    acceptance.check(of(wait_s=3, left_s=60))
    acceptance.emptied()
    acceptance.check(of(wait_s=3, left_s=10))


def test_a_request_that_is_too_large_is_no_overload() -> None:
    acceptance = Acceptance()
    with pytest.raises(DeadlineExceeded, match=r"takes about 50.0 s on this busy server"):
        acceptance.check(of(wait_s=1, left_s=10, own_s=50))
    acceptance.check(of(wait_s=3, left_s=10))


def test_an_idle_server_takes_what_may_be_done_in_time() -> None:
    Acceptance().check(of(wait_s=0, left_s=0.05, own_s=0.1, waiting=0))

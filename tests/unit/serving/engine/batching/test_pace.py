from __future__ import annotations

import pytest
from dragoman_serving.engine.batching.pace import Pace, PaceMeter


def known(meter: PaceMeter) -> Pace:
    assert meter.pace is not None
    return meter.pace


def test_there_is_no_estimate_before_enough_work() -> None:
    meter = PaceMeter(workers=2)
    assert meter.pace is None
    for _ in range(100):
        meter.finished(steps=12, src_tokens=10)
    assert meter.pace is None
    for _ in range(100):
        meter.stepped(rows=32, elapsed_s=0.01)
    assert meter.pace is not None


def test_the_estimate_is_the_time_of_earlier_work() -> None:
    meter = PaceMeter(workers=2)
    for _ in range(200):
        meter.finished(steps=12, src_tokens=10)
        meter.stepped(rows=32, elapsed_s=0.01)
    # 1.2 steps per token; 2 workers x 32 rows in 0.01 s are 6,400 row steps per second.
    assert 6400 * known(meter).work_s == pytest.approx(1.2)
    assert 10 * known(meter).token_s == pytest.approx(0.12)


def test_the_estimate_follows_an_engine_that_gets_slower() -> None:
    meter = PaceMeter(workers=1)
    for elapsed_s in (0.01, 0.04):
        for _ in range(1000):
            meter.finished(steps=10, src_tokens=10)
            meter.stepped(rows=10, elapsed_s=elapsed_s)
    assert 1000 * known(meter).work_s == pytest.approx(4, rel=0.05)


def test_a_machine_that_was_suspended_is_not_considered_slow() -> None:
    meter = PaceMeter(workers=1)
    for _ in range(1000):
        meter.finished(steps=10, src_tokens=10)
        meter.stepped(rows=10, elapsed_s=0.01)
    before_s = known(meter).work_s
    meter.stepped(rows=10, elapsed_s=3600)
    assert known(meter).work_s < 2 * before_s

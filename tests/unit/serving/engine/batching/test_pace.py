from __future__ import annotations

import pytest
from dragoman_serving.engine.batching.pace import Pace


def test_it_knows_nothing_before_it_was_busy_for_a_while() -> None:
    pace = Pace(workers=2)
    assert not pace.is_known
    for _ in range(100):
        pace.finished(steps=12, src_tokens=10)
    assert not pace.is_known
    for _ in range(100):
        pace.stepped(rows=32, elapsed_s=0.01)
    assert pace.is_known


def test_work_takes_the_time_that_it_took_before() -> None:
    pace = Pace(workers=2)
    for _ in range(200):
        pace.finished(steps=12, src_tokens=10)
        pace.stepped(rows=32, elapsed_s=0.01)
    # 1.2 steps a token; 2 workers x 32 rows in 0.01 s are 6,400 row steps in a second.
    assert pace.seconds_of(6400) == pytest.approx(1.2)
    assert pace.duration_s(10) == pytest.approx(0.12)


def test_it_follows_an_engine_that_gets_slower() -> None:
    pace = Pace(workers=1)
    for elapsed_s in (0.01, 0.04):
        for _ in range(1000):
            pace.finished(steps=10, src_tokens=10)
            pace.stepped(rows=10, elapsed_s=elapsed_s)
    assert pace.seconds_of(1000) == pytest.approx(4, rel=0.05)


def test_a_machine_that_slept_is_not_taken_for_a_slow_one() -> None:
    pace = Pace(workers=1)
    for _ in range(1000):
        pace.finished(steps=10, src_tokens=10)
        pace.stepped(rows=10, elapsed_s=0.01)
    before_s = pace.seconds_of(1000)
    pace.stepped(rows=10, elapsed_s=3600)
    assert pace.seconds_of(1000) < 2 * before_s

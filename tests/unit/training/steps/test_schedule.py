from __future__ import annotations

import pytest
from dragoman_training.config import OptimisationConfig
from dragoman_training.steps.schedule import learning_rate


def test_the_papers_schedule() -> None:
    config = OptimisationConfig(warmup_steps=4000)
    for step in (1, 1000, 4000, 9000, 100_000):
        right = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert learning_rate(step, config, model_size=512) == pytest.approx(right)


def test_a_given_peak_is_reached_at_the_end_of_the_warm_up() -> None:
    config = OptimisationConfig(warmup_steps=10, peak_learning_rate=0.5)
    rates = [learning_rate(step, config, 512) for step in range(1, 30)]
    assert max(rates) == rates[9] == 0.5


def test_the_cool_down_ends_near_zero() -> None:
    config = OptimisationConfig(steps=100, warmup_steps=10, cooldown_steps=20)
    without = OptimisationConfig(steps=100, warmup_steps=10)
    assert learning_rate(80, config, 8) == learning_rate(80, without, 8)
    assert learning_rate(100, config, 8) == pytest.approx(learning_rate(100, without, 8) / 20)
    rates = [learning_rate(step, config, 8) for step in range(80, 101)]
    assert rates == sorted(rates, reverse=True)


def test_a_cool_down_by_time_falls_with_the_time_left() -> None:
    by_time = OptimisationConfig(minutes=3.0, cooldown_minutes=0.5, warmup_steps=10)
    without = OptimisationConfig(warmup_steps=10)
    shortened = OptimisationConfig(minutes=0.5, cooldown_minutes=9.0, warmup_steps=10)
    for step, left_s in ((5, 100.0), (50, 30.0), (70, 12.0), (90, 0.3), (100, 0.0), (110, -2.0)):
        share = min(1.0, max(0.0, left_s / 30.0))
        right = share * learning_rate(step, without, 8)
        assert learning_rate(step, by_time, 8, left_s) == pytest.approx(right)
        assert learning_rate(step, shortened, 8, left_s) == pytest.approx(right)

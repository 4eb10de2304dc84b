from __future__ import annotations

import contextlib
import random
import signal

import pytest
from dragoman_training.config import OptimisationConfig
from dragoman_training.run.timer import Timer
from dragoman_training.steps.processes import Processes
from dragoman_training.steps.schedule import learning_rate


class Clock:
    """Tells the time that a test has set."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize("seed", range(20))
def test_a_run_ends_in_time_with_its_last_validation_and_checkpoint(seed: int) -> None:
    sampled = random.Random(seed)
    minutes, before_s = sampled.uniform(1.0, 10.0), sampled.uniform(0.0, 30.0)
    step_s, pause_s = sampled.uniform(0.01, 2.0), sampled.uniform(0.1, 10.0)
    half = minutes / 2
    config = OptimisationConfig(
        minutes=minutes, cooldown_minutes=half, warmup_steps=1, peak_learning_rate=1.0
    )
    clock = Clock()
    timer, steps, rates = Timer(minutes, Processes(), before_s, clock), 0, []
    while timer.left_s > 0:
        steps += 1
        rate = learning_rate(steps, config, 8, timer.left_s)
        # Without the decrease by the square root of the step.
        rates.append(round(rate * steps**0.5, 9))
        clock.now_s += step_s
        timer.end_step()
        if steps % 10 == 0 or timer.left_s <= 0:
            clock.now_s += pause_s
            timer.end_pause("validation")
    assert timer.elapsed_s == pytest.approx(clock.now_s - 100.0 + before_s)
    assert timer.elapsed_s <= 60 * minutes
    assert timer.elapsed_s > 60 * minutes - 2 * step_s - pause_s
    assert rates[0] == pytest.approx(min(1.0, (60 * minutes - before_s) / (30 * minutes)))
    assert rates == sorted(rates, reverse=True)
    assert 0.0 < rates[-1] < 0.05 + (step_s + pause_s) / (30 * minutes)


def test_a_run_without_a_limit_ends_by_a_signal_only() -> None:
    clock = Clock()
    timer = Timer(None, Processes(), clock=clock)
    for _ in range(3):
        clock.now_s += 1e6
        timer.end_step()
        assert timer.left_s > 0
        assert not timer.is_stopped
    timer.stop()
    assert timer.left_s > 0, "the step in progress is finished"
    timer.end_step()
    timer.end_pause("checkpoint")
    assert timer.is_stopped
    assert timer.left_s <= 0


def test_an_interrupt_whose_exception_is_lost_ends_the_run_after_the_step() -> None:
    timer = Timer(None, Processes(), clock=Clock())
    with timer.stopped_by_signals():
        timer.end_step()
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            timer.end_step()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

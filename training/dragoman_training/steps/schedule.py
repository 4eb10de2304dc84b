"""The learning rate at each step."""

from __future__ import annotations

import math

from dragoman_training.config import OptimisationConfig


def learning_rate(
    step: int, config: OptimisationConfig, model_size: int, left_s: float = math.inf
) -> float:
    """Linear warm-up, then the inverse square root of the step, then an optional linear cool-down.

    Only the cool-down depends on the end of the run, so it alone follows the time in a run that
    ends by time.

    Args:
        step: number of the step, from 1.
        config: warm-up, peak and cool-down.
        model_size: E, for the paper's peak if none is given.
        left_s: seconds until the run ends, if it ends by time.

    Source: Vaswani et al. 2017, equation 3.
    """
    peak = config.peak_learning_rate
    if peak is None:
        peak = float((model_size * config.warmup_steps) ** -0.5)
    rate: float = peak * min(step / config.warmup_steps, (config.warmup_steps / step) ** 0.5)
    if config.cooldown_steps:
        rate *= min(1.0, (config.steps - step + 1) / config.cooldown_steps)
    if config.minutes and config.cooldown_minutes:
        cooldown_s = 60 * min(config.cooldown_minutes, config.minutes)
        rate *= min(1.0, max(0.0, left_s) / cooldown_s)
    return rate

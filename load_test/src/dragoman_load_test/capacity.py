"""The search for the highest rate that meets the objectives."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

from dragoman_load_test.results import Capacity, Plan, Trial

_FIRST = 0.8
_STEP_BACK = 0.95
_NOTHING = 0.02
"""Below this share of a closed loop's throughput, the search ends without a capacity."""
_MOST_TRIALS = 16
BUSY = 0.65
"""Latency grows long before a server is fully used, since requests arrive unevenly."""
_VALUES = """\
# {rate} sentences/s with pods like the tested one, each at most {busy:.0%} busy; one may fail.
scaling:
  triton:
    least: 2  # at quiet times
    most: {replicas}
    processorPercent: {busy_percent}
    rowsInUse: {busy}
"""

Try = Callable[[float], Awaitable[str]]
"""Measures a server at a rate; returns why it failed, or an empty string."""


async def find_capacity(
    start: float,
    try_rate: Try,
    confirm: Try,
    tell: Callable[[Trial], None] = lambda _: None,
    resolution: float = 0.05,
) -> Capacity:
    """Bisect between a rate that meets the objectives and one that does not.

    Args:
        start: estimate of the capacity in sentences per second, from a closed loop.
        try_rate: a short trial.
        confirm: a long trial of the rate found; the rate is reduced until a trial succeeds.
        tell: called after each trial.
        resolution: relative distance of the two rates at which the search ends.

    Returns:
        The highest confirmed rate.
    """
    trials: list[Trial] = []

    async def holds(rate: float, trial: Try) -> bool:
        why = await trial(rate)
        trials.append(Trial(rate, not why, why))
        tell(trials[-1])
        return not why

    least = _NOTHING * start
    low, high = 0.0, math.inf
    rate = _FIRST * start
    while start and len(trials) < _MOST_TRIALS and high > least and high - low > resolution * low:
        if await holds(rate, try_rate):
            low = rate
        else:
            high = rate
        rate = (low + high) / 2 if math.isfinite(high) else 1.25 * low
    while low > least and len(trials) < 2 * _MOST_TRIALS:
        if await holds(low, confirm):
            return Capacity(low, tuple(trials))
        low *= _STEP_BACK
    return Capacity(0.0, tuple(trials))


def plan_for(
    wanted_per_s: float, capacity_per_s: float, characters: float, price_per_hour: float | None
) -> Plan | None:
    """Plan the servers for a rate.

    Args:
        wanted_per_s: sentences per second at the peak.
        capacity_per_s: capacity of one server.
        characters: mean number of characters of a sentence.
        price_per_hour: price of one server; None: unknown.

    Returns:
        The plan; None: a server has no capacity.
    """
    if capacity_per_s <= 0:
        return None
    replicas = math.ceil(wanted_per_s / (BUSY * capacity_per_s)) + 1
    cost = None
    if price_per_hour is not None:
        cost = 1e6 * replicas * price_per_hour / (3600 * wanted_per_s * characters)
    return Plan(wanted_per_s, BUSY, replicas, cost)


def values_of(plan: Plan) -> str:
    """Returns the Helm values for a plan."""
    return _VALUES.format(
        rate=f"{plan.sentences_per_s:g}",
        busy=plan.busy,
        busy_percent=round(100 * plan.busy),
        replicas=plan.replicas,
    )

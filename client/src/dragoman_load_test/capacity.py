"""The search for the highest rate that keeps the objectives."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

from dragoman_load_test.results import Capacity, Plan, Trial

_FIRST = 0.8
_STEP_BACK = 0.95
_NOTHING = 0.02
"""Part of a closed loop's throughput below which a server is held to hold nothing."""
_MOST_TRIALS = 16
BUSY = 0.65
"""A server answers late long before it is fully used, since requests come unevenly."""
_VALUES = """\
# {rate} sentences/s by pods like the one that was tested, at most {busy:.0%} busy; one may fail.
scaling:
  triton:
    least: 2  # at quiet times
    most: {replicas}
    processorPercent: {busy_percent}
    rowsInUse: {busy}
"""

Try = Callable[[float], Awaitable[str]]
"""Puts a server under a rate for a while; what spoke against it, empty if nothing did."""


async def find_capacity(
    start: float,
    try_rate: Try,
    confirm: Try,
    tell: Callable[[Trial], None] = lambda _: None,
    resolution: float = 0.05,
) -> Capacity:
    """Halve the distance between a rate that holds and one that does not.

    Args:
        start: sentences a second that may be about the most, as a closed loop has it.
        try_rate: a short trial.
        confirm: a long one, of what the search ends with; it steps back until one holds.
        tell: called after each of them.
        resolution: how close to each other the two rates come, over the rate.

    Returns:
        The highest rate that was confirmed.
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
    """The servers that a rate takes.

    Args:
        wanted_per_s: sentences a second at the busiest time.
        capacity_per_s: what one server holds.
        characters: of a sentence, in the mean.
        price_per_hour: of one server; None: not known.

    Returns:
        The plan; None: a server holds nothing.
    """
    if capacity_per_s <= 0:
        return None
    replicas = math.ceil(wanted_per_s / (BUSY * capacity_per_s)) + 1
    cost = None
    if price_per_hour is not None:
        cost = 1e6 * replicas * price_per_hour / (3600 * wanted_per_s * characters)
    return Plan(wanted_per_s, BUSY, replicas, cost)


def values_of(plan: Plan) -> str:
    """The values of the Helm chart that a plan needs."""
    return _VALUES.format(
        rate=f"{plan.sentences_per_s:g}",
        busy=plan.busy,
        busy_percent=round(100 * plan.busy),
        replicas=plan.replicas,
    )

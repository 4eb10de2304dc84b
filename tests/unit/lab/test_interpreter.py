"""The throughput that is computed from the time for which a sentence holds the lock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.served.interpreter import Cost

TIMES = st.floats(1.0, 10_000.0)
COSTS = st.builds(Cost, TIMES, TIMES, TIMES, st.just(0.0))
COUNTS = st.integers(1, 64)


def whole_us(cost: Cost) -> float:
    return cost.network + cost.tokens + cost.python


@given(COSTS, COUNTS, COUNTS)
def test_neither_the_cores_nor_the_locks_do_more_than_they_can(
    cost: Cost, cores: int, engines: int
) -> None:
    engines = min(cores, engines)
    computed = cost.computed(cores, engines)
    assert computed <= 1.0001e6 * cores / whole_us(cost)
    assert computed <= 1.0001e6 * engines / cost.python


@given(COSTS, COUNTS)
def test_a_process_for_each_core_waits_for_no_lock(cost: Cost, cores: int) -> None:
    assert cost.computed(cores, cores) == pytest.approx(1e6 * cores / whole_us(cost))


@given(COSTS, st.sampled_from([2, 4, 8, 16, 32]))
def test_more_processes_or_cores_never_do_less(cost: Cost, cores: int) -> None:
    computed = cost.computed(cores, 1)
    assert cost.computed(cores, 2) >= 0.9999 * computed
    assert cost.computed(2 * cores, 1) >= 0.9999 * computed


def test_a_short_hold_of_the_lock_hardly_matters_and_a_long_one_is_all() -> None:
    short, long = Cost(990.0, 0.0, 10.0, 0.0), Cost(10.0, 0.0, 990.0, 0.0)
    assert short.computed(8, 1) == pytest.approx(8000, rel=0.01)
    assert long.computed(8, 1) == pytest.approx(1e6 / 990, rel=0.001)
    assert short.most_cores == pytest.approx(100)
    assert long.most_cores == pytest.approx(1.0101, rel=1e-4)

"""Which bundles are loaded and dropped: snapshots in, decisions out."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from dragoman_serving.models.residency import PATIENCE_S, Decision, Holding, State, decide

MB = 1 << 20


def absent(key: int, wanted_s: float | None = None, size: int = 10, loading: int = 0) -> Holding:
    return Holding(key, State.ABSENT, size * MB, loading * MB, wanted_s=wanted_s)


def loaded(key: int, used_s: float = 0.0, in_flight: int = 0, size: int = 10) -> Holding:
    return Holding(
        key, State.LOADED, size * MB, in_flight=in_flight, used_s=used_s, loaded_s=used_s
    )


def decided(*holdings: Holding, most: int | None = 20, now_s: float = 100.0) -> Decision:
    return decide(holdings, None if most is None else most * MB, now_s)


def test_nothing_is_done_without_requests() -> None:
    assert decided(absent(1), loaded(2), loaded(3, in_flight=1)) == Decision()


def test_requested_bundles_are_loaded_in_order() -> None:
    assert decided(absent(1, 99.0), absent(2, 98.0), absent(3)) == Decision(load=2)
    assert decided(absent(1, 99.0), absent(2, 99.0)) == Decision(load=1)


def test_one_is_loaded_at_a_time() -> None:
    for state in (State.LOADING, State.CLOSING):
        assert decided(replace(loaded(1), state=state), absent(2, 0.0)) == Decision()


def test_without_a_limit_nothing_is_dropped() -> None:
    many = [loaded(key) for key in range(1000)]
    assert decided(*many, absent(1000, 99.9), most=None) == Decision(load=1000)


def test_the_least_recently_used_idle_ones_are_dropped_and_no_more_than_needed() -> None:
    waiting = absent(9, 99.9, size=15)
    assert decided(loaded(1, 5.0), loaded(2, 4.0), waiting, most=35) == Decision(load=9)
    assert decided(loaded(1, 5.0), loaded(2, 4.0), waiting, most=30) == Decision(9, (2,))
    assert decided(loaded(1, 5.0), loaded(2, 4.0), waiting, most=20) == Decision(9, (2, 1))
    busy = loaded(2, 4.0, in_flight=1)
    assert decided(loaded(1, 5.0), busy, waiting, most=30) == Decision(9, (1,))


def test_memory_for_loading_counts_until_the_bundle_is_loaded() -> None:
    assert decided(loaded(1), absent(2, 99.9, loading=1)) == Decision(2, (1,))
    assert decided(replace(loaded(1), loading_bytes=MB), absent(2, 99.9)) == Decision(2)


def test_busy_bundles_are_drained_if_another_has_waited_long() -> None:
    busy = [loaded(1, 5.0, in_flight=2), loaded(2, 4.0, in_flight=1)]
    waiting = absent(9, 99.0)
    assert decided(*busy, waiting, now_s=99.0 + PATIENCE_S / 2) == Decision()
    later_s = 99.0 + PATIENCE_S
    assert decided(*busy, waiting, now_s=later_s) == Decision(drain=(2,))
    draining = replace(busy[1], is_draining=True)
    assert decided(busy[0], draining, waiting, now_s=later_s) == Decision(drain=(2,))
    # It is dropped although it is wanted again: the other one comes first.
    drained = replace(draining, in_flight=0, used_s=99.5, wanted_s=99.2)
    assert decided(busy[0], drained, waiting, now_s=later_s) == Decision(9, (2,))
    # No request waits any more, so it keeps running.
    assert decided(busy[0], draining, now_s=later_s) == Decision()


def test_a_bundle_larger_than_the_limit_is_refused_and_delays_no_others() -> None:
    holdings = (absent(1, 90.0, size=21), absent(2, 95.0))
    assert decided(*holdings) == Decision(load=2, refuse=(1,))
    assert decided(absent(1, 99.0, size=20, loading=1)) == Decision(refuse=(1,))


def test_an_old_version_is_dropped_as_soon_as_it_is_idle() -> None:
    leaving = replace(loaded(1, in_flight=1), is_leaving=True)
    assert decided(leaving, loaded(2)) == Decision()
    assert decided(replace(leaving, in_flight=0), loaded(2)) == Decision(drop=(1,))
    # It ends in any case: no other bundle needs to be drained for its space.
    waiting = absent(9, 90.0)
    assert decided(leaving, loaded(2, in_flight=1), waiting) == Decision(drain=(1,))


@pytest.mark.parametrize("seed", range(20))
def test_the_limit_holds_and_every_bundle_is_loaded(seed: int) -> None:
    """A simulation: requests come and end at random, for more bundles than fit the memory.

    Every wanted bundle is loaded sooner or later, however busy the others are.
    """
    chance = random.Random(seed)
    world = {key: absent(key, size=chance.randint(5, 12), loading=2) for key in range(8)}
    longest_wait_s = 0.0
    for tick in range(3000):
        now_s = tick * 0.05
        for key, resident in world.items():
            if chance.random() < 0.3:
                takes = resident.state is State.LOADED and not resident.is_draining
                wanted_s = resident.wanted_s if resident.wanted_s is not None else now_s
                world[key] = (
                    replace(resident, in_flight=resident.in_flight + 1, used_s=now_s)
                    if takes
                    else replace(resident, wanted_s=wanted_s)
                )
            elif resident.in_flight and chance.random() < 0.6:
                world[key] = replace(resident, in_flight=resident.in_flight - 1)
        decision = decide(list(world.values()), 30 * MB, now_s)
        for key, resident in world.items():
            world[key] = replace(resident, is_draining=key in decision.drain)
        for key in decision.drop:
            assert not world[key].in_flight
            world[key] = replace(world[key], state=State.ABSENT, is_draining=False)
        if decision.load is not None:
            resident = world[decision.load]
            held = [other for other in world.values() if other.state is State.LOADED]
            taken = sum(other.loaded_bytes for other in held)
            assert taken + resident.loaded_bytes + resident.loading_bytes <= 30 * MB
            assert resident.wanted_s is not None
            longest_wait_s = max(longest_wait_s, now_s - resident.wanted_s)
            world[resident.key] = replace(
                resident, state=State.LOADED, wanted_s=None, loaded_s=now_s
            )
    waiting_s = [
        3000 * 0.05 - resident.wanted_s
        for resident in world.values()
        if resident.wanted_s is not None
    ]
    assert max(waiting_s, default=0.0) < 20
    assert 0 < longest_wait_s < 20

"""The policy for bundles in memory: which ones to load, unload or drain, and when.

Only policy, without bundles, threads, locks or clocks: a snapshot goes in, a decision comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

PATIENCE_S = 1.0
"""A bundle waits this long for others to become idle. After that, the one loaded longest ago takes
no more requests until it has been unloaded. So every bundle gets its turn, however busy the others
are."""


class State(Enum):
    """State of a bundle."""

    ABSENT = "absent"
    LOADING = "loading"
    LOADED = "loaded"
    CLOSING = "closing"


@dataclass(frozen=True)
class Holding:
    """A version of a bundle, as the policy sees it.

    Attributes:
        key: its key in decisions.
        state: its state.
        loaded_bytes: its maximum memory while it is loaded.
        loading_bytes: its additional memory while it is being loaded.
        in_flight: number of requests that use it.
        used_s: when it was last used.
        loaded_s: when it was loaded.
        wanted_s: since when requests wait for it; None: none do.
        is_draining: whether it takes no more requests for now.
        is_leaving: whether it was replaced or removed.
    """

    key: int
    state: State
    loaded_bytes: int
    loading_bytes: int = 0
    in_flight: int = 0
    used_s: float = 0.0
    loaded_s: float = 0.0
    wanted_s: float | None = None
    is_draining: bool = False
    is_leaving: bool = False

    @property
    def is_idle(self) -> bool:
        """Whether it can be unloaded immediately."""
        return self.state is State.LOADED and not self.in_flight


@dataclass(frozen=True)
class Decision:
    """The next actions, by key.

    Attributes:
        load: the bundle to load, after others were unloaded.
        drop: bundles to unload.
        drain: all bundles that take no more requests until they have been unloaded.
        refuse: bundles that are too large even if all others are unloaded.
    """

    load: int | None = None
    drop: tuple[int, ...] = ()
    drain: tuple[int, ...] = ()
    refuse: tuple[int, ...] = ()


def decide(holdings: Sequence[Holding], most_bytes: int | None, now_s: float) -> Decision:
    """Returns the next actions.

    Bundles are loaded one at a time, in the order in which they were first wanted. If there is no
    space, idle ones are unloaded, the least recently used first; never one with work in flight.

    Args:
        holdings: all versions of all bundles.
        most_bytes: memory limit of all of them together; None: no limit.
        now_s: the time, on the clock of the holdings.
    """
    if any(holding.state in (State.LOADING, State.CLOSING) for holding in holdings):
        return Decision(drain=tuple(holding.key for holding in holdings if holding.is_draining))
    gone = tuple(holding.key for holding in holdings if holding.is_idle and holding.is_leaving)
    held = [
        holding for holding in holdings if holding.state is State.LOADED and holding.key not in gone
    ]
    awaited = [
        holding
        for holding in holdings
        if holding.state is State.ABSENT and holding.wanted_s is not None
    ]
    too_large = tuple(holding.key for holding in awaited if _needed(holding) > _most(most_bytes))
    awaited = [holding for holding in awaited if holding.key not in too_large]
    if not awaited:
        return Decision(drop=gone, refuse=too_large)
    first = min(awaited, key=lambda holding: (holding.wanted_s, holding.key))
    lacking = _needed(first) + sum(holding.loaded_bytes for holding in held) - _most(most_bytes)
    idle = [holding for holding in held if holding.is_idle]
    idle.sort(key=lambda holding: (not holding.is_draining, holding.used_s))
    dropped = _enough(idle, lacking)
    lacking -= sum(holding.loaded_bytes for holding in dropped)
    if lacking <= 0:
        return Decision(first.key, (*gone, *(holding.key for holding in dropped)), (), too_large)
    if now_s - (first.wanted_s or 0.0) < PATIENCE_S:
        return Decision(drop=gone, refuse=too_large)
    busy = sorted(
        (holding for holding in held if not holding.is_idle), key=lambda holding: holding.loaded_s
    )
    # Leaving ones first: they end in any case.
    busy.sort(key=lambda holding: not holding.is_leaving)
    drained = _enough(busy, lacking)
    return Decision(drop=gone, drain=tuple(holding.key for holding in drained), refuse=too_large)


def _needed(holding: Holding) -> int:
    return holding.loaded_bytes + holding.loading_bytes


def _most(most_bytes: int | None) -> float:
    return float("inf") if most_bytes is None else most_bytes


def _enough(holdings: Sequence[Holding], lacking: float) -> list[Holding]:
    """The first bundles that together free the lacking bytes, or all of them."""
    chosen = []
    for holding in holdings:
        if lacking <= 0:
            break
        chosen.append(holding)
        lacking -= holding.loaded_bytes
    return chosen

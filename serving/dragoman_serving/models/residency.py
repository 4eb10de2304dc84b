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
    if any(one.state in (State.LOADING, State.CLOSING) for one in holdings):
        return Decision(drain=tuple(one.key for one in holdings if one.is_draining))
    gone = tuple(one.key for one in holdings if one.is_idle and one.is_leaving)
    held = [one for one in holdings if one.state is State.LOADED and one.key not in gone]
    wanted = [one for one in holdings if one.state is State.ABSENT and one.wanted_s is not None]
    too_large = tuple(one.key for one in wanted if _needed(one) > _most(most_bytes))
    wanted = [one for one in wanted if one.key not in too_large]
    if not wanted:
        return Decision(drop=gone, refuse=too_large)
    first = min(wanted, key=lambda one: (one.wanted_s, one.key))
    lacking = _needed(first) + sum(one.loaded_bytes for one in held) - _most(most_bytes)
    idle = [one for one in held if one.is_idle]
    idle.sort(key=lambda one: (not one.is_draining, one.used_s))
    dropped = _enough(idle, lacking)
    lacking -= sum(one.loaded_bytes for one in dropped)
    if lacking <= 0:
        return Decision(first.key, (*gone, *(one.key for one in dropped)), (), too_large)
    if now_s - (first.wanted_s or 0.0) < PATIENCE_S:
        return Decision(drop=gone, refuse=too_large)
    busy = sorted((one for one in held if not one.is_idle), key=lambda one: one.loaded_s)
    busy.sort(key=lambda one: not one.is_leaving)  # leaving ones first: they end in any case
    drained = _enough(busy, lacking)
    return Decision(drop=gone, drain=tuple(one.key for one in drained), refuse=too_large)


def _needed(holding: Holding) -> int:
    return holding.loaded_bytes + holding.loading_bytes


def _most(most_bytes: int | None) -> float:
    return float("inf") if most_bytes is None else most_bytes


def _enough(holdings: Sequence[Holding], lacking: float) -> list[Holding]:
    """The first bundles that together free the lacking bytes, or all of them."""
    found = []
    for one in holdings:
        if lacking <= 0:
            break
        found.append(one)
        lacking -= one.loaded_bytes
    return found

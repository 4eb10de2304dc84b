"""The generator's look at itself: whether it, and not the server, was the limit."""

from __future__ import annotations

import asyncio
import time

from dragoman_load_test.latency import LatencyHistogram

_TICK_S = 0.01
_BUSY_SHARE = 0.8
_LATE_MS = 10.0
_LATE_SHARE = 0.1


class OwnLoad:
    """How busy this process is, and how late its event loop."""

    def __init__(self) -> None:
        """Look from now on, in the running event loop."""
        self.lag = LatencyHistogram()
        """How late things were done that should have been done at a time."""
        self._ticking = asyncio.create_task(self._tick())
        self._cpu_s, self._wall_s = time.process_time(), time.perf_counter()

    def restart(self) -> None:
        """Forget what was before."""
        self.lag.clear()
        self.processors()

    def processors(self) -> float:
        """Processors in use since the last call; one is all that a generator has."""
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        share = (cpu_s - self._cpu_s) / max(wall_s - self._wall_s, 1e-9)
        self._cpu_s, self._wall_s = cpu_s, wall_s
        return share

    async def stop(self) -> None:
        """Look no more."""
        self._ticking.cancel()
        await asyncio.gather(self._ticking, return_exceptions=True)

    async def _tick(self) -> None:
        while True:
            due_s = time.perf_counter() + _TICK_S
            await asyncio.sleep(_TICK_S)
            self.lag.record(time.perf_counter() - due_s)


def limits_found(processors: float, lag: LatencyHistogram, median_ms: float) -> list[str]:
    """Why the generator may have been the limit, in sentences; empty: it was not.

    Args:
        processors: that it used.
        lag: how late it did things.
        median_ms: of the latencies it measured.
    """
    found = []
    if processors > _BUSY_SHARE:
        found.append(
            f"the generator used {processors:.0%} of the one processor it can use: it, and not the "
            "server, may have been the limit"
        )
    late_ms = lag.percentile_ms(99)
    if late_ms > max(_LATE_MS, _LATE_SHARE * median_ms):
        found.append(
            f"one in a hundred times the generator was {late_ms:.0f} ms late or more: latencies "
            "hold some of its own; give it processors that the server does not use"
        )
    return found

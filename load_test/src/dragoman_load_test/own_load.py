"""Monitors the load generator: whether it was the bottleneck instead of the server."""

from __future__ import annotations

import asyncio
import time

from dragoman_load_test.latency import LatencyHistogram

_TICK_S = 0.01
_BUSY_SHARE = 0.8
_LATE_MS = 10.0
_LATE_SHARE = 0.1


class OwnLoad:
    """Measures the CPU usage of this process, and the delays of its event loop."""

    def __init__(self) -> None:
        """Start measuring, in the running event loop."""
        self.lag = LatencyHistogram()
        """How late scheduled events ran."""
        self._ticking = asyncio.create_task(self._tick())
        self._cpu_s, self._wall_s = time.process_time(), time.perf_counter()

    def restart(self) -> None:
        """Reset the measurements."""
        self.lag.clear()
        self.processors()

    def processors(self) -> float:
        """Returns the CPU cores used since the last call; a generator can use only one."""
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        share = (cpu_s - self._cpu_s) / max(wall_s - self._wall_s, 1e-9)
        self._cpu_s, self._wall_s = cpu_s, wall_s
        return share

    async def stop(self) -> None:
        """Stop measuring."""
        self._ticking.cancel()
        await asyncio.gather(self._ticking, return_exceptions=True)

    async def _tick(self) -> None:
        while True:
            due_s = time.perf_counter() + _TICK_S
            await asyncio.sleep(_TICK_S)
            self.lag.record(time.perf_counter() - due_s)


def limits_found(processors: float, lag: LatencyHistogram, median_ms: float) -> list[str]:
    """Returns, in words, why the generator may have been the bottleneck; empty: it was not.

    Args:
        processors: CPU cores that it used.
        lag: how late scheduled events ran.
        median_ms: median of the measured latencies.
    """
    limits = []
    if processors > _BUSY_SHARE:
        limits.append(
            f"the generator used {processors:.0%} of the one processor it can use: it may have "
            "been the bottleneck instead of the server"
        )
    late_ms = lag.percentile_ms(99)
    if late_ms > max(_LATE_MS, _LATE_SHARE * median_ms):
        limits.append(
            f"in 1 % of cases the generator was at least {late_ms:.0f} ms late: the latencies "
            "include its own delay; give it processors that the server does not use"
        )
    return limits

"""The memory of the engine's process before, during and after a burst of long texts."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.servers import WAIT_S, serving

BURST = ["The weather is nice today, and we are going to the beach with our friends. " * 10] * 16
"""With four beams each, as many rows as two workers have."""
IDLE_S = 10
"""Time after which an idle worker returns its memory."""
LEAST_RETURNED = 0.5
"""Share of the caches' peak bytes: 0.8 were measured, and 0.2 when idle workers kept their last
batch. Not all of a cache's pages are ever written."""


def memory_bytes(pid: int) -> int:
    """Memory of a process, including its share of what it shares with others.

    Source: https://man7.org/linux/man-pages/man5/proc_pid_smaps.5.html
    """
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    match = re.search(r"^Pss: +([0-9]+) kB$", text, re.MULTILINE)
    assert match
    return int(match[1]) * 1024


def test_memory_is_released_after_a_burst() -> None:
    with serving() as served, ThreadPoolExecutor(1) as pool:
        assert served.server.engine is not None
        pid = served.server.engine.pid
        served.grpc.translate("I'm hungry.")
        before = memory_bytes(pid)
        burst = pool.submit(
            lambda: served.grpc.translate(
                BURST, target_language="de", beam_width=4, split_sentences=False
            )
        )
        during, caches = 0, 0.0
        while not burst.done():
            during = max(during, memory_bytes(pid))
            caches = max(caches, served.metric("cache_bytes"))
            time.sleep(0.05)
        assert len(burst.result()) == len(BURST)
        assert caches > 30e6  # otherwise there is nothing to measure
        assert during - before > LEAST_RETURNED * caches
        deadline = time.monotonic() + IDLE_S + WAIT_S
        while during - memory_bytes(pid) < LEAST_RETURNED * caches:
            assert time.monotonic() < deadline, (before, during, memory_bytes(pid), caches)
            time.sleep(0.5)

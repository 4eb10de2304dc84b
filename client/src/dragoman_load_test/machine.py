"""On what a load test ran."""

from __future__ import annotations

import contextlib
import os
import platform
from pathlib import Path


def machine_in_words() -> str:
    """Its processors and system."""
    try:
        processors = len(os.sched_getaffinity(0))
    except AttributeError:  # of Linux alone
        processors = os.cpu_count() or 1
    return f"{processors} x {cpu_name()}, {platform.system()}"


def cpu_name() -> str:
    """As the processor calls itself."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()

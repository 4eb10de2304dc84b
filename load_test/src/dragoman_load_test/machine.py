"""The machine that a load test runs on."""

from __future__ import annotations

import contextlib
import os
import platform
from pathlib import Path


def machine_in_words() -> str:
    """Returns its processors and operating system in words."""
    try:
        processors = len(os.sched_getaffinity(0))
    except AttributeError:  # available only on Linux
        processors = os.cpu_count() or 1
    return f"{processors} x {cpu_name()}, {platform.system()}"


def cpu_name() -> str:
    """Returns the name of the processor."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()

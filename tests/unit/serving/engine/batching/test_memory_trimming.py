"""Large blocks are returned to the system when they are freed."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from threading import Thread
import numpy as np
from dragoman_serving.engine.batching.memory_trimming import return_large_blocks

def resident_mb():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6

def come_and_go():
    '''As models that are loaded and dropped: some stay while others are freed.'''
    blocks = []
    for number in range(60):
        blocks.append(np.ones((6 + number % 5) << 20, np.uint8))
        if len(blocks) > 4:
            del blocks[number % 4]
        blocks[-1] = [blocks[-1], bytes(100_000)]

if sys.argv[1] == "returning":
    return_large_blocks()
before = resident_mb()
threads = [Thread(target=come_and_go) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(resident_mb() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the settings are glibc's")
def test_freed_blocks_of_several_threads_are_returned() -> None:
    def kept_mb(how: str) -> float:
        words = [sys.executable, "-c", PROGRAM, how]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return float(done.stdout)

    assert kept_mb("returning") < min(10, kept_mb("as it is") / 2)

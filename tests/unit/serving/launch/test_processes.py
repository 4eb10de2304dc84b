from __future__ import annotations

import signal
import subprocess
import sys

from dragoman_serving.launch.processes import blocks_signals, memory_bytes

HOLDING = "held = bytearray(50_000_000); print(flush=True); input()"
BLOCKING = """
import signal, threading, time
def block():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGABRT])
    print(flush=True)
    time.sleep(60)
threading.Thread(target=block).start()
"""


def test_a_signal_that_one_thread_blocks_is_found() -> None:
    child = subprocess.Popen([sys.executable, "-c", BLOCKING], stdout=subprocess.PIPE)
    assert child.stdout
    child.stdout.readline()
    try:
        assert blocks_signals(child.pid, [signal.SIGSEGV, signal.SIGABRT])
        assert not blocks_signals(child.pid, [signal.SIGSEGV])
    finally:
        child.kill()
        child.communicate()
    assert not blocks_signals(child.pid, [signal.SIGABRT])


def test_memory_of_another_process() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDING], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout
    child.stdout.readline()
    assert 50_000_000 < memory_bytes(child.pid) < 80_000_000
    child.communicate(b"\n")
    assert memory_bytes(child.pid) == 0

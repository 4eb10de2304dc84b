from __future__ import annotations

import os
import signal
import subprocess
import sys

from dragoman_serving.launch.processes import blocks_signals

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
    assert not blocks_signals(os.getpid(), [signal.SIGSEGV, signal.SIGABRT])
    assert not blocks_signals(child.pid, [signal.SIGABRT])

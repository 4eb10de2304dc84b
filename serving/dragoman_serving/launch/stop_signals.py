"""SIGINT and SIGTERM: the first one asks the program to stop, the second one to stop at once."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

at_once = threading.Event()
"""Set by the second signal: requests in flight are not waited for."""


class Stopped(KeyboardInterrupt):
    """A signal asked this program to stop; without a handler, it acts like Ctrl-C."""


def stop_on_signals() -> None:
    """From now on, raise `Stopped` in the main thread on SIGINT or SIGTERM, once."""

    def stop(_number: int, _frame: object) -> None:
        for number in _STOP_SIGNALS:
            signal.signal(number, _stop_at_once)
        raise Stopped

    for number in _STOP_SIGNALS:
        signal.signal(number, stop)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Within the block, stop signals only set `at_once`, so that the clean-up goes on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [signal.signal(number, _stop_at_once) for number in _STOP_SIGNALS]
    try:
        yield
    finally:
        for number, handler in zip(_STOP_SIGNALS, before, strict=True):
            signal.signal(number, handler)


def _stop_at_once(_number: int, _frame: object) -> None:
    at_once.set()

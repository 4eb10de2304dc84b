"""SIGINT and SIGTERM: the first one asks the program to stop, and later ones are ignored."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """A signal asked this program to stop; without a handler, it acts like Ctrl-C."""


def stop_on_signals() -> None:
    """From now on, raise `Stopped` in the main thread on SIGINT or SIGTERM, once."""

    def stop(_number: int, _frame: object) -> None:
        for one in _STOP_SIGNALS:
            signal.signal(one, signal.SIG_IGN)
        raise Stopped

    for one in _STOP_SIGNALS:
        signal.signal(one, stop)


@contextlib.contextmanager
def signals_ignored() -> Iterator[None]:
    """Ignore stop signals within the block, so that they do not interrupt the clean-up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [signal.signal(one, signal.SIG_IGN) for one in _STOP_SIGNALS]
    try:
        yield
    finally:
        for one, handler in zip(_STOP_SIGNALS, before, strict=True):
            signal.signal(one, handler)

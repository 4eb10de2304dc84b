"""Finding out which clients have gone.

Triton does not tell a Python model that a request was cancelled; it must ask, and each question
goes through shared memory. So a thread of its own asks, about a few requests at a time, and only
about those that take long.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

log = logging.getLogger(__name__)

_EVERY_S = 0.02
_LONG_S = 0.1
"""Nothing is asked about a request before; most are answered by then."""
_AT_ONCE = 16
"""Requests asked about each time; with more in flight, each waits its turn."""


class Watched(Protocol):
    """A request, as far as it is watched."""

    @property
    def is_answered(self) -> bool:
        """Whether nothing needs to be known of it any more."""

    def is_cancelled(self) -> bool:
        """Whether its client has cancelled it."""


class CancellationWatch:
    """Gives up the requests whose clients have cancelled them."""

    def __init__(self) -> None:
        """Start the thread."""
        self._watched: deque[tuple[float, Watched, Callable[[], None]]] = deque()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dragoman-watch", daemon=True)
        self._thread.start()

    def watch(self, request: Watched, give_up: Callable[[], None]) -> None:
        """Watch a request until it is answered; `give_up` is called if it is cancelled before."""
        self._watched.append((time.monotonic() + _LONG_S, request, give_up))

    def close(self) -> None:
        """Stop the thread."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(_EVERY_S):
            asked, now_s = 0, time.monotonic()
            for _ in range(len(self._watched)):
                if asked == _AT_ONCE:
                    break  # the next ones stand first in line
                due_s, request, give_up = self._watched.popleft()
                if request.is_answered:
                    continue
                if now_s < due_s:
                    self._watched.append((due_s, request, give_up))
                    continue
                asked += 1
                try:
                    cancelled = request.is_cancelled()
                except Exception:  # one that cannot be asked must not end the watch over the others
                    log.exception("a request cannot be watched")
                    continue
                if cancelled:
                    give_up()
                else:
                    self._watched.append((now_s + _LONG_S, request, give_up))

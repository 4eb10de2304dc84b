"""Answers go out in groups, by threads of their own.

An answer is a round trip to Triton's process, through many threads, and while all cores are at work
each of them has to wait for its turn. A group of answers costs Triton, and the clients, little more
than one. So where many requests are in flight, answers wait for others, never longer than 20 ms,
and threads of their own give them. Where few are, the engine's thread gives them at once.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)

Answer = Callable[[], None]

_LONGEST_S = 0.02
"""How long an answer may wait for others."""
_FEW = 16
"""Requests in flight up to which nothing waits."""
_GROUPS = 8
"""A group is as large a part of the requests in flight."""
_THREADS = 8


class Answering:
    """Gives answers, in its own threads."""

    def __init__(self) -> None:
        """Start the threads."""
        self._lock = threading.Lock()
        self._in_flight = 0
        self._held: list[Answer] = []
        self._released: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=target, name=f"dragoman-answers-{index}", daemon=True)
            for index, target in enumerate([self._watch] + [self._run] * _THREADS)
        ]
        for thread in self._threads:
            thread.start()

    def expect(self) -> None:
        """Know of a request that will be answered."""
        with self._lock:
            self._in_flight += 1

    def add(self, answer: Answer) -> None:
        """Give the answer to a request that was expected: now, or soon."""
        with self._lock:
            at_once = self._in_flight <= _FEW
            if at_once:
                self._in_flight -= 1
            else:
                self._held.append(answer)
                if len(self._held) * _GROUPS < self._in_flight:
                    return
        if at_once:
            _give(answer)
        else:
            self._release()

    def close(self) -> None:
        """Give the answers that wait, then stop."""
        self._stopped.set()
        self._release()
        for _ in range(_THREADS):
            self._released.put(None)
        for thread in self._threads:
            thread.join()

    def _release(self) -> None:
        with self._lock:
            group, self._held = self._held, []
            self._in_flight -= len(group)
        for answer in group:
            self._released.put(answer)

    def _watch(self) -> None:
        while not self._stopped.wait(_LONGEST_S):
            self._release()

    def _run(self) -> None:
        while (answer := self._released.get()) is not None:
            _give(answer)


def _give(answer: Answer) -> None:
    try:
        answer()
    except Exception:  # one answer that fails must not keep back the others
        log.exception("a request cannot be answered")

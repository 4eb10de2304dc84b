"""How fast the engine works while sentences wait, measured, to tell how long others will wait.

Work is counted in rows times source tokens, which is known on arrival. How many steps a source
token takes, and how many rows are stepped in a second, is measured. Only busy time counts, since an
engine that is not busy does not show its capacity.
"""

from __future__ import annotations

import threading

_BUSY_MEMORY_S = 5.0
"""Busy time, of a worker, after which a measurement counts for a third."""
_LONGEST_STEP_S = 1.0
"""A longer one was not work: the process, or the whole machine, was stopped meanwhile."""
_LEAST_BUSY_S = 0.3
_SENTENCE_MEMORY = 256
_LEAST_SENTENCES = 8


class Pace:
    """Measured by several threads, and asked by others."""

    def __init__(self, workers: int) -> None:
        """Begin without a measurement.

        Args:
            workers: threads that step rows beside each other.
        """
        self._workers = workers
        self._lock = threading.Lock()
        self._busy_s = self._steps = self._row_steps = 0.0
        self._sentences = self._sentence_steps = self._src_tokens = 0.0

    def stepped(self, rows: int, elapsed_s: float) -> None:
        """Count a step of a worker while other sentences waited.

        Args:
            rows: that were stepped.
            elapsed_s: time for it and all that goes with it.
        """
        elapsed_s = min(elapsed_s, _LONGEST_STEP_S)
        keep = 1 - elapsed_s / _BUSY_MEMORY_S
        with self._lock:
            self._busy_s = self._busy_s * keep + elapsed_s
            self._steps = self._steps * keep + 1
            self._row_steps = self._row_steps * keep + rows

    def finished(self, steps: int, src_tokens: int) -> None:
        """Count a sentence.

        Args:
            steps: that it took.
            src_tokens: that it has.
        """
        keep = 1 - 1 / _SENTENCE_MEMORY
        with self._lock:
            self._sentences = self._sentences * keep + 1
            self._sentence_steps = self._sentence_steps * keep + steps
            self._src_tokens = self._src_tokens * keep + src_tokens

    @property
    def is_known(self) -> bool:
        """Whether enough was measured."""
        return self._busy_s >= _LEAST_BUSY_S and self._sentences >= _LEAST_SENTENCES

    def seconds_of(self, work: float) -> float:
        """Time in which all workers together do work; it must be known.

        Args:
            work: rows times source tokens.
        """
        with self._lock:
            row_steps = work * self._sentence_steps / self._src_tokens
            return row_steps * self._busy_s / (self._row_steps * self._workers)

    def duration_s(self, src_tokens: int) -> float:
        """Time that a sentence of so many source tokens is in flight; it must be known."""
        with self._lock:
            steps = src_tokens * self._sentence_steps / self._src_tokens
            return steps * self._busy_s / self._steps

"""How fast the engine works while sentences wait, measured, to tell how long others will wait.

Work is counted in rows times source tokens, which is known on arrival. How many steps a source
token takes, and how many rows are stepped in a second, is measured. Only busy time counts, since an
engine that is not busy does not show its capacity.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

_BUSY_MEMORY_S = 5.0
"""Busy time, of a worker, after which a measurement counts for a third."""
_LONGEST_STEP_S = 1.0
"""A longer one was not work: the process, or the whole machine, was stopped meanwhile."""
_LEAST_BUSY_S = 0.3
_SENTENCE_MEMORY = 256
_LEAST_SENTENCES = 8


@dataclass(frozen=True)
class Pace:
    """What was measured.

    Attributes:
        work_s: time in which all workers together do one unit of work.
        token_s: time for which a sentence is in flight, for each of its source tokens.
    """

    work_s: float
    token_s: float


class PaceMeter:
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
    def pace(self) -> Pace | None:
        """The pace of the last busy seconds; None before enough was measured."""
        with self._lock:
            if self._busy_s < _LEAST_BUSY_S or self._sentences < _LEAST_SENTENCES:
                return None
            steps_each = self._sentence_steps / self._src_tokens
            row_step_s = self._busy_s / (self._row_steps * self._workers)
            return Pace(steps_each * row_step_s, steps_each * self._busy_s / self._steps)

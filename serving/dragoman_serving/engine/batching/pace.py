"""Measures the throughput of a busy engine, to estimate waiting times.

The unit of work is rows times source tokens, which is known on arrival. The steps per source token
and the row steps per second are measured. Only busy time counts, because an idle engine does not
show its capacity.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

_BUSY_MEMORY_S = 5.0
"""Busy time of a worker after which the weight of a measurement has fallen to a third."""
_LONGEST_STEP_S = 1.0
"""Longer steps are cut to this, because the process or the machine was probably paused."""
_LEAST_BUSY_S = 0.3
_SENTENCE_MEMORY = 256
_LEAST_SENTENCES = 8


class Pace(NamedTuple):
    """The measured pace.

    Attributes:
        work_s: time of all workers together for one unit of work.
        token_s: time in flight of a sentence, per source token.
    """

    work_s: float
    token_s: float


class PaceMeter:
    """Measures the pace; several threads may use it."""

    def __init__(self, workers: int) -> None:
        """Start without a measurement.

        Args:
            workers: number of parallel worker threads.
        """
        self._workers = workers
        self._lock = threading.Lock()
        self._busy_s = self._steps = self._row_steps = 0.0
        self._sentences = self._sentence_steps = self._src_tokens = 0.0

    def stepped(self, rows: int, elapsed_s: float, steps: int = 1) -> None:
        """Count steps of a worker while other sentences waited.

        Args:
            rows: rows of each step.
            elapsed_s: time of the steps, with all overhead.
            steps: number of steps.
        """
        elapsed_s = min(elapsed_s, steps * _LONGEST_STEP_S)
        keep = max(0.0, 1 - elapsed_s / _BUSY_MEMORY_S)
        with self._lock:
            self._busy_s = self._busy_s * keep + elapsed_s
            self._steps = self._steps * keep + steps
            self._row_steps = self._row_steps * keep + steps * rows

    def finished(self, steps: int, src_tokens: int, sentences: int = 1) -> None:
        """Count finished sentences.

        Args:
            steps: number of their steps, added up.
            src_tokens: number of their source tokens, added up.
            sentences: number of the sentences.
        """
        keep = (1 - 1 / _SENTENCE_MEMORY) ** sentences
        with self._lock:
            self._sentences = self._sentences * keep + sentences
            self._sentence_steps = self._sentence_steps * keep + steps
            self._src_tokens = self._src_tokens * keep + src_tokens

    @property
    def pace(self) -> Pace | None:
        """The pace of the last busy seconds; None before there are enough measurements."""
        with self._lock:
            if self._busy_s < _LEAST_BUSY_S or self._sentences < _LEAST_SENTENCES:
                return None
            steps_each = self._sentence_steps / self._src_tokens
            row_step_s = self._busy_s / (self._row_steps * self._workers)
            return Pace(steps_each * row_step_s, steps_each * self._busy_s / self._steps)

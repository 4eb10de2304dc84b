"""The engine's counters, for metrics."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from dragoman.kernel.hypothesis import Hypothesis
from dragoman_serving.engine.batching.job import Job, State
from dragoman_serving.engine.histogram import Histogram


@dataclass
class Counts:
    """Totals since the engine started; times in seconds."""

    completed: int = 0
    cancelled: int = 0
    overdue: int = 0
    rejected: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    queue_s: float = 0.0
    """From submission to joining a batch, summed over `completed` sentences, like the next two."""
    first_token_s: float = 0.0
    """From submission to the first token."""
    decode_s: float = 0.0
    """From joining a batch to the last token."""
    queue: Histogram = field(default_factory=Histogram)
    """From submission to joining a batch, for all sentences that joined one."""
    first_token: Histogram = field(default_factory=Histogram)
    """From submission to the end of the first step, for all sentences that reached it."""
    total: Histogram = field(default_factory=Histogram)
    """From submission to the result, for `completed` sentences."""


class Statistics:
    """Thread-safe counters."""

    def __init__(self) -> None:
        """Start at zero."""
        self._lock = threading.Lock()
        self._counts = Counts()

    @property
    def counts(self) -> Counts:
        """A copy of the current counts."""
        with self._lock:
            return copy.deepcopy(self._counts)

    def add(self, **increments: float) -> None:
        """Add to counts, by name."""
        with self._lock:
            for name, more in increments.items():
                setattr(self._counts, name, getattr(self._counts, name) + more)

    def joined(self, jobs: Sequence[Job], now_s: float) -> None:
        """Count sentences that join a batch now."""
        with self._lock:
            for job in jobs:
                self._counts.queue.observe(now_s - job.submitted_s)

    def first_tokens(self, jobs: Sequence[Job], now_s: float) -> None:
        """Count sentences whose first step is done now."""
        with self._lock:
            for job in jobs:
                self._counts.first_token.observe(now_s - job.submitted_s)

    def gave_up(self, job: Job) -> None:
        """Count a sentence that was cancelled or is overdue."""
        if job.state is State.EXPIRED:
            self.add(overdue=1)
        else:
            self.add(cancelled=1)

    def completed(self, finished: Sequence[tuple[Job, Hypothesis]]) -> None:
        """Count sentences that are finished now, with their translations."""
        now_s = time.monotonic()
        with self._lock:
            counts = self._counts
            counts.completed += len(finished)
            for job, result in finished:
                submitted_s = job.submitted_s
                joined_s, first_s = job.joined_s or now_s, job.first_token_s or now_s
                counts.total.observe(now_s - submitted_s)
                counts.input_tokens += len(job.sentence.src_ids)
                counts.output_tokens += len(result.ids)
                counts.queue_s += joined_s - submitted_s
                counts.first_token_s += first_s - submitted_s
                counts.decode_s += now_s - joined_s

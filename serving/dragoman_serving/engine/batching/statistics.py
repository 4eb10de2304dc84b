"""What the engine has done so far, for those who watch it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace

from dragoman_serving.engine.batching.job import Job, State


@dataclass
class Counts:
    """Sums since the engine started; times in seconds."""

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


class Statistics:
    """Counts that several threads add to."""

    def __init__(self) -> None:
        """Begin at zero."""
        self._lock = threading.Lock()
        self._counts = Counts()

    @property
    def counts(self) -> Counts:
        """The counts as they are now."""
        with self._lock:
            return replace(self._counts)

    def add(self, **increments: float) -> None:
        """Add to counts, by name."""
        with self._lock:
            for name, more in increments.items():
                setattr(self._counts, name, getattr(self._counts, name) + more)

    def gave_up(self, job: Job) -> None:
        """Count a sentence that was not wanted any more."""
        if job.state is State.EXPIRED:
            self.add(overdue=1)
        else:
            self.add(cancelled=1)

    def completed(self, job: Job, output_tokens: int) -> None:
        """Count a sentence whose translation is done."""
        now_s = time.monotonic()
        joined_s, first_s = job.joined_s or now_s, job.first_token_s or now_s
        self.add(
            completed=1,
            input_tokens=len(job.sentence.src_ids),
            output_tokens=output_tokens,
            queue_s=joined_s - job.submitted_s,
            first_token_s=first_s - job.submitted_s,
            decode_s=now_s - joined_s,
        )

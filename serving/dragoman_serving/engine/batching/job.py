"""A sentence on its way through the engine, and who waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from dragoman.kernel.hypothesis import Hypothesis
from dragoman_serving.engine.sentence import Sentence

_settling = threading.Lock()
"""A worker that is done with a sentence and one that broke may settle it at the same moment."""

Progress = Callable[[tuple[int, ...]], None]
"""Takes the tokens that are certain so far, without start and end symbol."""


@dataclass(eq=False)
class Job:
    """A sentence and the future of its translation.

    Cancelling the future is how a caller gives a sentence up: its rows are freed at the next step.
    `progress` is called in the engine's thread, so it must be quick.
    """

    sentence: Sentence
    future: Future[Hypothesis] = field(default_factory=Future)
    progress: Progress | None = None
    submitted_s: float = field(default_factory=time.monotonic)
    """On the clock of `time.monotonic`, like the next two."""
    joined_s: float | None = None
    """When it joined a batch."""
    first_token_s: float | None = None
    begin_step: int = 0
    """How many steps its batch had made when it joined."""

    @property
    def rows(self) -> int:
        """How many rows it takes in a batch."""
        return self.sentence.options.beam_width

    @property
    def work(self) -> int:
        """Rows times source tokens; see `Pace`."""
        return self.rows * len(self.sentence.src_ids)

    def overdue(self, now_s: float) -> bool:
        """Whether its deadline has passed."""
        deadline_s = self.sentence.deadline_s
        return deadline_s is not None and now_s > deadline_s

    def finish(self, outcome: Hypothesis | Exception) -> bool:
        """Settle the future; False if it was cancelled or settled before."""
        with _settling:
            if self.future.done() or self.future.running():
                return False
            if not self.future.set_running_or_notify_cancel():
                return False
        if isinstance(outcome, Exception):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)
        return True

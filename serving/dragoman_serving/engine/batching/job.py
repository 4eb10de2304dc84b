"""A sentence on its way through the engine, and the future of its translation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum
from typing import Generic, TypeVar

from dragoman.kernel.hypothesis import Hypothesis
from dragoman_serving.engine.errors import DeadlineExceeded
from dragoman_serving.engine.sentence import Sentence

_Result = TypeVar("_Result")
_settling = threading.Lock()
"""A worker that is done with a sentence and one that broke may settle it at the same moment."""

Progress = Callable[[tuple[int, ...]], None]
"""Takes the tokens that are certain so far, without start and end symbol."""


class State(Enum):
    """Where a sentence is; the last four are final."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    FAILED = "failed"


class Awaited(Generic[_Result]):
    """A piece of work that somebody waits for.

    Cancelling `future` gives it up: `state` becomes CANCELLED when the engine next looks at it.
    `work` is in the unit of `Pace`, `deadline_s` on the clock of `time.monotonic`.
    """

    def __init__(self, work: int, priority: int, deadline_s: float | None) -> None:
        """Begin to wait."""
        self.future: Future[_Result] = Future()
        self.state = State.WAITING
        self.work, self.priority, self.deadline_s = work, priority, deadline_s

    def is_wanted(self, now_s: float) -> bool:
        """Whether its future is open and its deadline has not passed."""
        overdue = self.deadline_s is not None and now_s > self.deadline_s
        return not overdue and not self.future.done()

    def settle(self, state: State, outcome: _Result | Exception) -> None:
        """Give it a final state and its future an outcome, unless it has them or is cancelled."""
        with _settling:
            if self.state not in (State.WAITING, State.RUNNING):
                return
            if not self.future.set_running_or_notify_cancel():
                self.state = State.CANCELLED
                return
            self.state = state
        if isinstance(outcome, Exception):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)

    def give_up(self, why: str) -> None:
        """Settle what is not wanted: it was cancelled, or else it is overdue, as `why` says."""
        self.settle(State.EXPIRED, DeadlineExceeded(why))


Kind = tuple[int, int]
"""Of sentences that may step together: the width of a search, and the searches of a sentence."""


class Job(Awaited[Hypothesis]):
    """A sentence, and when it reached which step.

    `progress` is called in the engine's thread, so it must be quick. `begin_step` is how many steps
    its batch had made when it joined, `steps` how many it took itself. `came_alone` is whether
    nothing else was submitted with it.
    """

    def __init__(self, sentence: Sentence, progress: Progress | None = None) -> None:
        """Begin to wait."""
        self.sentence, self.progress = sentence, progress
        self.rows = sentence.options.rows
        self.kind: Kind = sentence.options.beam_width, sentence.options.searches
        work = self.rows * len(sentence.src_ids)
        super().__init__(work, sentence.priority, sentence.deadline_s)
        self.submitted_s = time.monotonic()
        self.joined_s: float | None = None
        self.encoded_s: float | None = None
        self.first_token_s: float | None = None
        self.begin_step = self.steps = 0
        self.came_alone = False

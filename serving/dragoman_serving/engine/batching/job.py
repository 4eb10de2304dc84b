"""A sentence in the engine, with the future of its translation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import Enum
from typing import Generic, TypeVar

from dragoman.kernel.hypothesis import Hypothesis
from dragoman_serving.engine.errors import DeadlineExceeded
from dragoman_serving.engine.futures import Future
from dragoman_serving.engine.sentence import Sentence

_Result = TypeVar("_Result")
_settling = threading.Lock()
"""A worker that finishes a sentence and one that fails may settle it at the same time."""

Progress = Callable[[tuple[int, ...]], None]
"""Callback for the stable prefix, as tokens without start and end symbol."""


class State(Enum):
    """State of a sentence; the last four are final."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    FAILED = "failed"


class Awaited(Generic[_Result]):
    """A unit of work with a future.

    Cancelling `future` cancels it: `state` becomes CANCELLED when the engine next checks it.
    `work` is in the unit of `Pace`, `deadline_s` on the clock of `time.monotonic`.
    """

    def __init__(self, work: int, priority: int, deadline_s: float | None) -> None:
        """Start in the state WAITING."""
        self.future: Future[_Result] = Future()
        self.state = State.WAITING
        self.work, self.priority, self.deadline_s = work, priority, deadline_s

    def is_wanted(self, now_s: float) -> bool:
        """Whether its future is open and its deadline has not passed."""
        overdue = self.deadline_s is not None and now_s > self.deadline_s
        return not overdue and not self.future.done()

    def settle(self, state: State, outcome: _Result | Exception) -> None:
        """Set the final state and the future's outcome, unless they are set or it is cancelled."""
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
        """Settle work that was cancelled or is overdue; `why` is the message if it is overdue."""
        self.settle(State.EXPIRED, DeadlineExceeded(why))


Kind = tuple[int, int]
"""Sentences of one kind may step together: the beam width, and the searches per sentence."""


class Job(Awaited[Hypothesis]):
    """A sentence, with the times of its stages.

    `progress` is called in the engine's thread, so it must be fast. `begin_step` is the number of
    steps of its batch before it joined, `steps` the number of its own steps. `came_alone` tells
    whether nothing else was submitted with it.
    """

    def __init__(self, sentence: Sentence, progress: Progress | None = None) -> None:
        """Start in the state WAITING."""
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

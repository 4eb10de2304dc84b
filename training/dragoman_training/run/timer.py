"""The time of a run: how long it has trained, and how much it has left."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from dragoman_training.steps.processes import Processes


class Timer:
    """Measures a run, and says when it ends: by `training.minutes`, or at once by a signal.

    Time is reserved for a last step, validation and checkpoint as long as the ones before. All
    processes of a run see the same time left.
    """

    def __init__(
        self,
        minutes: float | None,
        processes: Processes,
        elapsed_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start.

        Args:
            minutes: length of the run; None: no limit.
            processes: those that train together.
            elapsed_s: time used before, if the run is resumed.
            clock: in seconds.
        """
        self._limit_s = math.inf if minutes is None else 60 * minutes
        self._processes, self._clock = processes, clock
        self._started_s, self._lap_s = clock() - elapsed_s, elapsed_s
        self._step_s, self._pauses_s = 0.0, dict[str, float]()
        self._is_stopped = self._is_interrupted = False
        self.left_s = self._limit_s - elapsed_s
        """Seconds until the last step must end; 0 or less: no step may begin."""

    @property
    def elapsed_s(self) -> float:
        """Seconds of the run, with those before it was resumed."""
        return self._clock() - self._started_s

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has ended the run, as of the last step."""
        return self.left_s == -math.inf

    def stop(self) -> None:
        """End the run after the current step."""
        self._is_stopped = True

    def end_step(self) -> None:
        """Count a step; then `left_s` says whether another one may begin.

        Raises:
            KeyboardInterrupt: SIGINT came, and its exception was lost, as in a callback of C code.
        """
        if self._is_interrupted:
            raise KeyboardInterrupt
        self._step_s = self._lap()
        self.left_s = self._processes.least(-math.inf if self._is_stopped else self._left_s)

    def end_pause(self, kind: str) -> None:
        """Count a pause between two steps, such as a validation; the last step has one of each."""
        self._pauses_s[kind] = max(self._pauses_s.get(kind, 0.0), self._lap())
        if not self.is_stopped:
            self.left_s = self._processes.least(self._left_s)

    @property
    def _left_s(self) -> float:
        return self._limit_s - self.elapsed_s - self._step_s - sum(self._pauses_s.values())

    def _lap(self) -> float:
        before, self._lap_s = self._lap_s, self.elapsed_s
        return self._lap_s - before

    @contextmanager
    def stopped_by_signals(self) -> Iterator[None]:
        """Let the first SIGTERM call `stop`; a second one, or SIGINT, ends the process at once."""
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread can handle signals
            return

        def handle(_number: int, _frame: FrameType | None) -> None:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self.stop()

        def interrupt(_number: int, _frame: FrameType | None) -> None:
            self._is_interrupted = True
            raise KeyboardInterrupt

        handlers = {signal.SIGTERM: handle}
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored
            handlers[signal.SIGINT] = interrupt
        former = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

"""Futures with little overhead, and their combinators."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, InvalidStateError
from traceback import format_tb
from typing import Any, Generic, TypeVar

log = logging.getLogger(__name__)

_Part = TypeVar("_Part")
_Whole = TypeVar("_Whole")

_STAGES = ("pending", "running", "cancelled", "finished")
_PENDING, _RUNNING, _CANCELLED, _FINISHED = range(4)
"""Stages of a future; the last two are final."""


class Future(Generic[_Part]):
    """A future like `concurrent.futures.Future`, which has a condition only if a thread waits.

    Python's own makes one each time, and locks it at every call: for a short sentence, that was a
    quarter of all the calls that hold the GIL.
    """

    def __init__(self) -> None:
        """Start pending."""
        self._lock = threading.Lock()
        self._stage = _PENDING
        self._outcome: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future[_Part]], object]] = []
        self._ended: threading.Event | None = None
        """Set at the end, for threads that wait."""

    def __repr__(self) -> str:
        """Its stage."""
        return f"<Future {_STAGES[self._stage]}>"

    def cancel(self) -> bool:
        """Cancel it; returns whether it is cancelled, which a running or finished one is not."""
        with self._lock:
            if self._stage != _PENDING:
                return self._stage == _CANCELLED
            self._stage = _CANCELLED
        self._end()
        return True

    def cancelled(self) -> bool:
        """Whether it is cancelled."""
        return self._stage == _CANCELLED

    def running(self) -> bool:
        """Whether its work has begun, and cannot be cancelled any more."""
        return self._stage == _RUNNING

    def done(self) -> bool:
        """Whether it is cancelled or finished."""
        return self._stage >= _CANCELLED

    def add_done_callback(self, fn: Callable[[Future[_Part]], object]) -> None:
        """Call a function when it is done, or now; errors of the function are logged."""
        with self._lock:
            if self._stage < _CANCELLED:
                self._callbacks.append(fn)
                return
        self._call((fn,))

    def result(self, timeout: float | None = None) -> _Part:
        """Wait for the result.

        Raises:
            CancelledError: it is cancelled.
            TimeoutError: it was not done in time.
            Exception: its work has failed with this.
        """
        error = self._error if self._stage == _FINISHED else self.exception(timeout)
        if error is not None:
            try:
                raise error
            finally:
                del self, error  # breaks the reference cycle with the error's traceback
        outcome: _Part = self._outcome
        return outcome

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the error; None: there is a result.

        Raises:
            CancelledError: it is cancelled.
            TimeoutError: it was not done in time.
        """
        if self._stage < _CANCELLED:
            self._wait(timeout)
        if self._stage == _CANCELLED:
            raise CancelledError
        return self._error

    def set_running_or_notify_cancel(self) -> bool:
        """Begin its work; returns False if it is cancelled."""
        with self._lock:
            if self._stage == _PENDING:
                self._stage = _RUNNING
                return True
        if self._stage == _CANCELLED:
            return False
        raise InvalidStateError("the future is running or finished already")

    def set_result(self, result: _Part) -> None:
        """Finish it."""
        self._finish(result, None)

    def set_exception(self, exception: BaseException | None) -> None:
        """Finish it with an error."""
        self._finish(None, exception)

    def _finish(self, outcome: Any, error: BaseException | None) -> None:
        with self._lock:
            if self._stage >= _CANCELLED:
                raise InvalidStateError("the future has an outcome already, or is cancelled")
            self._outcome, self._error, self._stage = outcome, error, _FINISHED
        self._end()

    def _end(self) -> None:
        if self._ended is not None:
            self._ended.set()
        callbacks, self._callbacks = self._callbacks, []
        self._call(callbacks)

    def _call(self, callbacks: Sequence[Callable[[Future[_Part]], object]]) -> None:
        for callback in callbacks:
            try:
                callback(self)
            except Exception as error:  # one callback's error must not reach the others
                # Without the error's message, which may quote a text.
                trace = "".join(format_tb(error.__traceback__))
                log.error("a callback of a future failed: %s\n%s", type(error).__name__, trace)

    def _wait(self, timeout_s: float | None) -> None:
        with self._lock:
            if self.done():
                return
            ended = self._ended = self._ended or threading.Event()
        if not ended.wait(timeout_s):
            raise TimeoutError


def outcome_error(done: Future[Any]) -> BaseException | None:
    """Returns the error of a finished future, or None."""
    return CancelledError() if done.cancelled() else done.exception()


def when_all_done(
    futures: Sequence[Future[_Part]],
    join: Callable[[list[_Part]], _Whole | Future[_Whole]],
) -> Future[_Whole]:
    """Returns a future of the result of `join`, or of the first error.

    `join` gets all results, and returns a result or a future of it. An error cancels the other
    parts. Cancelling the future cancels the unfinished parts. Without parts, `join` is called
    immediately.
    """
    whole = _Joined(futures, join)
    for future in futures:
        future.add_done_callback(whole.count)
    if not futures:
        whole.go_on()
    return whole


class _Joined(Future[_Whole], Generic[_Part, _Whole]):
    """A future of several parts, which refers to them until they have ended."""

    def __init__(
        self,
        futures: Sequence[Future[_Part]],
        join: Callable[[list[_Part]], _Whole | Future[_Whole]],
    ) -> None:
        super().__init__()
        self._join = join
        self._under_way: list[Future[Any]] = list(futures)
        self._remaining = len(futures)
        self._first_error: BaseException | None = None

    def cancel(self) -> bool:
        """Also cancel the parts."""
        is_cancelled = super().cancel()
        if is_cancelled:
            _cancel(self._under_way)
        return is_cancelled

    def count(self, done: Future[_Part]) -> None:
        """Note the end of a part."""
        error = outcome_error(done)
        with self._lock:
            is_first_error = error is not None and self._first_error is None
            if is_first_error:
                self._first_error = error
            self._remaining -= 1
            is_last = not self._remaining
        if is_first_error:
            _cancel(self._under_way)
        if is_last:
            self.go_on()

    def go_on(self) -> None:
        """Join the results, or end with the first error."""
        if self._first_error is not None or self.cancelled():
            for part in self._under_way:  # the result of a part may be a running future
                if outcome_error(part) is None and isinstance(begun := part.result(), Future):
                    begun.cancel()
            self._settle(self._first_error)
            return
        try:
            joined = self._join([part.result() for part in self._under_way])
        except Exception as error:  # every error must reach the waiting code
            self._settle(error)
            return
        if not isinstance(joined, Future):
            self._settle(None, joined)
            return
        self._under_way[:] = [joined]
        if self.cancelled():
            joined.cancel()
        joined.add_done_callback(self._take_over)

    def _take_over(self, done: Future[_Whole]) -> None:
        error = outcome_error(done)
        if error is not None:
            self._settle(error)
        else:
            self._settle(None, done.result())

    def _settle(self, error: BaseException | None, result: Any = None) -> None:
        # Breaks the reference cycles with the parts and what `join` refers to. Otherwise only the
        # garbage collector would free them, and its runs stop all threads.
        self._under_way.clear()
        del self._join
        if not self.set_running_or_notify_cancel():
            return
        # The error is set without being raised: a raised one would reference this frame, and so
        # this future, which references the error.
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(result)


def result_or(future: Future[_Part], default: _Part) -> Future[_Part]:
    """Returns a future of a result, or of a default on failure; a cancel is passed on."""
    chosen: Future[_Part] = Future()
    under_way: list[Future[Any]] = [future]

    def settle(done: Future[_Part]) -> None:
        under_way.clear()  # breaks the reference cycle, as in `_Joined`
        if chosen.set_running_or_notify_cancel():
            chosen.set_result(default if outcome_error(done) else done.result())

    _pass_cancel_on(chosen, under_way)
    future.add_done_callback(settle)
    return chosen


def _pass_cancel_on(whole: Future[Any], parts: list[Future[Any]]) -> None:
    """Cancel the parts that are in the list when `whole` is cancelled."""

    def pass_on(done: Future[Any]) -> None:
        if done.cancelled():
            _cancel(parts)

    whole.add_done_callback(pass_on)


def _cancel(parts: list[Future[Any]]) -> None:
    for part in list(parts):  # a copy, since the end of a part may clear the list
        part.cancel()

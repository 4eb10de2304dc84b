"""Combinators of futures."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, Generic, TypeVar

_Part = TypeVar("_Part")
_Whole = TypeVar("_Whole")


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
    joining = _Joining(futures, join)
    for future in futures:
        future.add_done_callback(joining.count)
    if not futures:
        joining.go_on()
    return joining.whole


class _Joining(Generic[_Part, _Whole]):
    """The parts of a future, of which nothing but the parts keeps a reference to this object."""

    def __init__(
        self,
        futures: Sequence[Future[_Part]],
        join: Callable[[list[_Part]], _Whole | Future[_Whole]],
    ) -> None:
        self.whole: Future[_Whole] = Future()
        self._join = join
        self._under_way: list[Future[Any]] = list(futures)
        self._remaining = len(futures)
        self._first_error: BaseException | None = None
        self._lock = threading.Lock()
        _pass_cancel_on(self.whole, self._under_way)

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
        if self._first_error is not None or self.whole.cancelled():
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
        if self.whole.cancelled():
            joined.cancel()
        joined.add_done_callback(self._finish)

    def _finish(self, done: Future[_Whole]) -> None:
        error = outcome_error(done)
        if error is not None:
            self._settle(error)
        else:
            self._settle(None, done.result())

    def _settle(self, error: BaseException | None, result: Any = None) -> None:
        # Breaks the reference cycle between the parts and this object. Otherwise only the garbage
        # collector would free them, and its runs stop all threads.
        self._under_way.clear()
        if not self.whole.set_running_or_notify_cancel():
            return
        # The error is set without being raised: a raised one would reference this frame, and so
        # `whole`, which references the error.
        if error is not None:
            self.whole.set_exception(error)
        else:
            self.whole.set_result(result)


def result_or(future: Future[_Part], default: _Part) -> Future[_Part]:
    """Returns a future of a result, or of a default on failure; a cancel is passed on."""
    chosen: Future[_Part] = Future()
    under_way: list[Future[Any]] = [future]

    def settle(done: Future[_Part]) -> None:
        under_way.clear()  # breaks the reference cycle, as in `_Joining`
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

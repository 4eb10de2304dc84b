"""Combinators of futures."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

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
    whole: Future[_Whole] = Future()
    under_way: list[Future[Any]] = list(futures)
    remaining = len(under_way)
    first_error: BaseException | None = None
    lock = threading.Lock()

    def count(done: Future[_Part]) -> None:
        nonlocal remaining, first_error
        error = outcome_error(done)
        with lock:
            is_first_error = error is not None and first_error is None
            if is_first_error:
                first_error = error
            remaining -= 1
            is_last = not remaining
        if is_first_error:
            cancel_parts()
        if is_last:
            go_on()

    def go_on() -> None:
        if first_error is not None or whole.cancelled():
            for part in under_way:  # the result of a part may be a running future
                if outcome_error(part) is None and isinstance(begun := part.result(), Future):
                    begun.cancel()
            settle(first_error)
            return
        try:
            joined = join([part.result() for part in under_way])
        except Exception as error:  # every error must reach the waiting code
            settle(error)
            return
        if not isinstance(joined, Future):
            settle(None, joined)
            return
        under_way[:] = [joined]
        if whole.cancelled():
            joined.cancel()
        joined.add_done_callback(finish)

    def finish(done: Future[_Whole]) -> None:
        error = outcome_error(done)
        if error is not None:
            settle(error)
        else:
            settle(None, done.result())

    def settle(error: BaseException | None, result: Any = None) -> None:
        # Breaks the reference cycle between the parts and this closure. Otherwise only the garbage
        # collector would free them, and its runs stop all threads.
        under_way.clear()
        if not whole.set_running_or_notify_cancel():
            return
        # The error is set without being raised: a raised one would reference this frame, and so
        # `whole`, which references the error.
        if error is not None:
            whole.set_exception(error)
        else:
            whole.set_result(result)

    def cancel_parts() -> None:
        for part in list(under_way):
            part.cancel()

    def pass_on(done: Future[_Whole]) -> None:
        if done.cancelled():
            cancel_parts()

    whole.add_done_callback(pass_on)
    for future in futures:
        future.add_done_callback(count)
    if not futures:
        go_on()
    return whole


def result_or(future: Future[_Part], default: _Part) -> Future[_Part]:
    """Returns a future of a result, or of a default on failure; a cancel is passed on."""
    chosen: Future[_Part] = Future()
    under_way = [future]

    def settle(done: Future[_Part]) -> None:
        under_way.clear()  # breaks the reference cycle, as in `when_all_done`
        if chosen.set_running_or_notify_cancel():
            chosen.set_result(default if outcome_error(done) else done.result())

    def pass_on(done: Future[_Part]) -> None:
        if done.cancelled():
            for part in list(under_way):
                part.cancel()

    chosen.add_done_callback(pass_on)
    future.add_done_callback(settle)
    return chosen

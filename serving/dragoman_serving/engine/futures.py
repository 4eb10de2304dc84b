"""Futures made of other futures."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

_Part = TypeVar("_Part")
_Whole = TypeVar("_Whole")


def outcome_error(done: Future[Any]) -> BaseException | None:
    """What a future that is done would raise, if anything; nothing is raised."""
    return CancelledError() if done.cancelled() else done.exception()


def when_all_done(
    futures: Sequence[Future[_Part]],
    join: Callable[[list[_Part]], _Whole],
) -> Future[_Whole]:
    """A future of what `join` makes of all results, or of the error that came first.

    An error cancels the other parts, and so does cancelling the future. Of none, it is done at
    once.
    """
    joined: Future[_Whole] = Future()
    parts = list(futures)
    remaining = len(parts)
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
            for part in list(parts):
                part.cancel()
        if not is_last:
            return
        settle()
        # The parts lead here, and from here to them: without this, only the collector of garbage
        # would free them, and its runs hold everything up.
        parts.clear()

    def settle() -> None:
        if not joined.set_running_or_notify_cancel():
            return
        # Errors are handed on without being raised: a raised one would hold this frame, and so
        # `joined`, which holds the error.
        if first_error is not None:
            joined.set_exception(first_error)
            return
        try:
            whole = join([part.result() for part in parts])
        except Exception as error:  # whatever it was, who waits must hear of it
            joined.set_exception(error)
        else:
            joined.set_result(whole)

    def pass_on(done: Future[_Whole]) -> None:
        if done.cancelled():
            for part in list(parts):
                part.cancel()

    joined.add_done_callback(pass_on)
    for future in futures:
        future.add_done_callback(count)
    if not futures:
        settle()
    return joined


def result_or(future: Future[_Part], default: _Part) -> Future[_Part]:
    """A future of a result, or of a default if it fails; cancelling it cancels the other."""
    chosen: Future[_Part] = Future()
    under_way = [future]

    def settle(done: Future[_Part]) -> None:
        under_way.clear()  # it leads here, as in `when_all_done`
        if chosen.set_running_or_notify_cancel():
            chosen.set_result(default if outcome_error(done) else done.result())

    def pass_on(done: Future[_Part]) -> None:
        if done.cancelled():
            for part in list(under_way):
                part.cancel()

    chosen.add_done_callback(pass_on)
    future.add_done_callback(settle)
    return chosen


def followed_by(first: Future[_Part], begin: Callable[[_Part], Future[_Whole]]) -> Future[_Whole]:
    """A future of what is begun with the result of `first`, or of the first error.

    Cancelling it cancels whichever of the two is under way.
    """
    whole: Future[_Whole] = Future()
    under_way: list[Future[Any]] = [first]

    def go_on(done: Future[_Part]) -> None:
        if failure := outcome_error(done):
            settle(failure)
            return
        try:
            under_way[:] = [begin(done.result())]
        except Exception as error:  # whatever it was, who waits must hear of it
            settle(error)
            return
        if whole.cancelled():
            under_way[0].cancel()
        under_way[0].add_done_callback(finish)

    def finish(done: Future[_Whole]) -> None:
        settle(outcome_error(done), done)

    def settle(failure: BaseException | None, second: Future[_Whole] | None = None) -> None:
        under_way.clear()  # it leads here, as in `when_all_done`
        if not whole.set_running_or_notify_cancel():
            return
        if failure is not None:
            whole.set_exception(failure)
        elif second is not None:
            whole.set_result(second.result())

    def pass_on(done: Future[_Whole]) -> None:
        if done.cancelled():
            for part in list(under_way):
                part.cancel()

    whole.add_done_callback(pass_on)
    first.add_done_callback(go_on)
    return whole

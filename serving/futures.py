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
    """A future of what `join` makes of all results, or of the first error.

    Cancelling it cancels them all. Of none, it is done at once.
    """
    joined: Future[_Whole] = Future()
    parts = list(futures)
    remaining = len(parts)
    lock = threading.Lock()

    def count(_: Future[_Part]) -> None:
        nonlocal remaining
        with lock:
            remaining -= 1
            if remaining:
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
        failures = (outcome_error(part) for part in parts)
        if failure := next(filter(None, failures), None):
            joined.set_exception(failure)
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

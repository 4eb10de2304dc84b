"""Prepares and completes large requests beside the engine, so that small ones need not wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dragoman_serving.engine.batching.waiting_queue import Turns, WaitingQueue
from dragoman_serving.engine.errors import Closed
from dragoman_serving.engine.futures import Future
from dragoman_serving.engine.settings import Tuning

_Part = TypeVar("_Part")


def is_small(texts: Sequence[str], tuning: Tuning) -> bool:
    """Whether a request is prepared immediately, not in the thread."""
    most_characters = tuning.prepare_characters
    return len(texts) <= tuning.prepare_texts and sum(map(len, texts)) <= most_characters


def cut(texts: Sequence[str], tuning: Tuning) -> list[range]:
    """Returns the parts of a request, as ranges of text indices."""
    most_texts, most_characters = tuning.part_texts, tuning.part_characters
    parts: list[range] = []
    start = characters = 0
    for index, text in enumerate(texts):
        full = index - start >= most_texts or characters + len(text) > most_characters
        if full and index > start:
            parts.append(range(start, index))
            start, characters = index, 0
        characters += len(text)
    return [*parts, range(start, len(texts))]


@dataclass(eq=False)
class _Task:
    run: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)


class Preparation:
    """A thread that runs one part of a request at a time."""

    def __init__(self, name: str = "preparation") -> None:
        """Start the thread; `name` is a part of its name."""
        self._waiting: WaitingQueue[_Task] = WaitingQueue()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=f"dragoman-{name}", daemon=True)
        self._thread.start()

    def submit(self, part: Callable[[], _Part], turns: Turns, priority: int = 0) -> Future[_Part]:
        """Queue a part of a request.

        Args:
            part: function to call.
            turns: turns of the request in this queue.
            priority: priority of the request.

        Returns:
            A future of the result. If it is cancelled in time, the function is not called.

        Raises:
            Closed: no more parts are accepted.
        """
        task = _Task(part)
        with self._changed:
            if self._closed:
                raise Closed("the engine has been shut down")
            self._waiting.add(task, turns, priority=priority)
            self._changed.notify()
        return task.future

    def close(self) -> None:
        """Run the queued parts, then stop."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while (task := self._take()) is not None:
            if not task.future.set_running_or_notify_cancel():
                continue
            try:
                prepared = task.run()
            except Exception as error:  # every error must reach the request
                task.future.set_exception(error)
            else:
                task.future.set_result(prepared)
                del prepared
            del task  # do not keep it alive while waiting for the next one

    def _take(self) -> _Task | None:
        """Waits for the next task; None if this is closed and the queue is empty."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting) or self._closed)
            return self._waiting.take() if self._waiting else None

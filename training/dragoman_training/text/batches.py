"""Batches and the plan of the next epoch, prepared by other processes ahead of the trainer."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from dragoman.kernel.errors import UsageError
from dragoman_training.text.examples import Batch, Examples, Part, tensors


class Batches:
    """Plans epochs and collates parts: in this process, or ahead of it in others.

    The result is the same. What no other process has begun, such as while they start, is done here.
    Only as a context manager does it have other processes.
    """

    def __init__(self, examples: Examples, processes: int) -> None:
        """Set the text.

        Args:
            examples: the text.
            processes: how many collate; one more plans. 0: all is done in this process.
        """
        self._examples, self._processes = examples, processes
        self._planner: Worker | None = None
        self._collators: list[Worker] = []
        self._waiting: list[Part] = []
        """Parts that will be needed, in this order, and that no process has."""
        self._given: dict[int, Worker] = {}
        """The process that has a part, by the part's identity."""

    def __enter__(self) -> Batches:
        """Start the processes."""
        if self._processes:
            self._planner = Worker(self._examples)
            self._collators = [Worker(self._examples) for _ in range(self._processes)]
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes."""
        for worker in (self._planner, *self._collators):
            if worker:
                worker.close()
        self._planner, self._collators = None, []
        self._waiting, self._given = [], {}

    def plan(self, *arguments: Any) -> list[list[Part]]:
        """The steps of an epoch: `Examples.steps` for these arguments."""
        if self._planner and (task := self._planner.task):
            steps: list[list[Part]] = self._planner.result()
            if task == ("steps", arguments):
                return steps
        return self._examples.steps(*arguments)

    def plan_ahead(self, *arguments: Any) -> bool:
        """Begin what `plan` will be called for, if the process for it is free; says whether."""
        return self._planner is not None and self._planner.begin("steps", arguments)

    def collate_ahead(self, parts: Iterable[Part]) -> None:
        """Begin what `batch` will be called for, in this order, as far as processes are free."""
        if self._collators:
            self._waiting = [part for part in parts if id(part) not in self._given]
            self._give()

    def batch(self, part: Part) -> Batch:
        """Collate a part: `Examples.batch`."""
        worker = self._given.pop(id(part), None)
        if worker is None:
            self._waiting = [other for other in self._waiting if other is not part]
            return self._examples.batch(part)
        arrays = worker.result()
        self._give()
        return tensors(arrays)

    def _give(self) -> None:
        for worker in self._collators:
            if self._waiting and worker.begin("arrays", (self._waiting[0],)):
                self._given[id(self._waiting.pop(0))] = worker


class Worker:
    """A process that calls methods of `Examples`, one call at a time.

    It has no queue that could fill up: it gets a call after the result of the one before was taken.
    """

    def __init__(self, examples: Examples) -> None:
        """Start it; it is ready a few seconds later."""
        # A process that is forked from one with threads may hang.
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, examples), daemon=True)
        with _signals_blocked():
            self.process.start()
        theirs.close()  # so that this process sees when the other one ends
        self._is_ready = False
        self.task: tuple[str, tuple[Any, ...]] | None = None
        """The call whose result has not been taken."""

    def begin(self, method: str, arguments: tuple[Any, ...]) -> bool:
        """Begin a call, if the process is ready and has none."""
        if not self._is_ready and self._connection.poll():
            self._receive()
            self._is_ready = True
        if not self._is_ready or self.task:
            return False
        self.task = (method, arguments)
        try:
            self._connection.send(self.task)
        except OSError:
            raise self._ended() from None
        return True

    def result(self) -> Any:
        """Wait for the result of the call."""
        self.task = None
        return self._receive()

    def close(self) -> None:
        """End the process; it has nothing to finish."""
        self._connection.close()
        self.process.kill()
        self.process.join()

    def _receive(self) -> Any:
        try:
            return self._connection.recv()
        except (EOFError, OSError):
            raise self._ended() from None

    def _ended(self) -> UsageError:
        self.process.join()
        return UsageError(
            f"a process that prepares batches has ended with the code {self.process.exitcode}; if "
            "the memory is too small for it, set training.batch_processes=0"
        )


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block SIGINT and SIGTERM; a process that is started meanwhile has them blocked for good.

    Sent to all processes at once, they must not end those that the trainer needs for its last step.
    """
    resource_tracker.ensure_running()  # multiprocessing starts it too, and then unblocks signals
    former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _serve(connection: Connection, examples: Examples) -> None:
    """Answer calls until the trainer ends, however it ends: that closes the connection."""
    with suppress(EOFError, OSError):
        connection.send(None)
        while True:
            method, arguments = connection.recv()
            result = getattr(examples, method)(*arguments)
            connection.send_bytes(pickle.dumps(result, protocol=5))

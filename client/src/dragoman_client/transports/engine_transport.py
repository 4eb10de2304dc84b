"""Transports to the engine processes of a server on this machine, for threads and for asyncio.

A client has one connection to each process for each model that it uses. A request goes to the
process that has the least of this client's work in flight. Every text may be a request of its own:
all requests of one turn of the event loop are sent together, each with its own deadline, and each
can be cancelled. The protocol is that of `dragoman_options.frames`.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Self, TypeVar, cast

from dragoman_options.client_frames import (
    pack_cancel,
    pack_hello,
    unpack_answer,
    unpack_figures,
    unpack_refused,
)
from dragoman_options.frames import (
    Answer,
    Damaged,
    Failure,
    Figure,
    FrameSplitter,
    Hello,
    Kind,
    split_paths,
)
from dragoman_options.table import STREAM, TRANSLATE

from dragoman_client.core.errors import (
    DeadlineExceeded,
    ServerError,
    ServerUnavailable,
    TranslationError,
)
from dragoman_client.core.request import Part
from dragoman_client.core.tensors import Values
from dragoman_client.transports.engine_wire import error_of, merged, read_answer, request_frame

_LATE_S = 1.0
"""Seconds after the deadline of a request at which the engine counts as hanging."""
_CONNECT_S = 5.0
"""Timeout of a connection, which waits while the engine starts."""
_FEW, _GATHER_S, _MOST_GATHER_S = 8, 100e-6, 20e-3
"""Most requests in flight at which answers are not gathered; the waiting time per request in
flight; the maximum waiting time. Triton's relay does the same, for the same reason."""
_FigureKey = tuple[str, tuple[tuple[str, str], ...]]
"""Name and labels of a metric."""
_Result = TypeVar("_Result")


class EngineRefusal(ServerError):
    """The engine refuses the client, or cannot load its models."""


class EngineEnded(ServerUnavailable):
    """The connection to the engine ended, maybe with its process."""


class EngineHangs(DeadlineExceeded):
    """The engine did not answer, not even that the deadline has passed."""


class EngineTransport:
    """Connections to engine processes; see `AsyncTransport`."""

    def __init__(self, path: str, late_s: float = _LATE_S, connect_s: float = _CONNECT_S) -> None:
        """Store the paths; the first request connects.

        Args:
            path: path of the engine's socket, or several; see `frames.join_paths`.
            late_s: seconds after the deadline of a request at which the engine counts as hanging.
            connect_s: timeout of a connection, which waits while the engine loads its models.
        """
        self._connect_s = connect_s
        self._engines = [_Engine(each, late_s, connect_s) for each in split_paths(path)]
        self._turns = itertools.count()

    async def infer(
        self, inputs: Mapping[str, Values], timeout_s: float, model: str = TRANSLATE
    ) -> Mapping[str, Values | None]:
        """See `AsyncTransport`."""
        connection, left_s = await self._connected(model, timeout_s)
        with connection.send(inputs, left_s) as pending:
            return read_answer(await pending.next())

    async def stream(
        self, inputs: Mapping[str, Values], timeout_s: float
    ) -> AsyncGenerator[Part, None]:
        """See `AsyncTransport`. Parts that the caller did not take yet are merged into one."""
        connection, left_s = await self._connected(STREAM, timeout_s)
        with connection.send(inputs, left_s) as pending:
            is_last = False
            while not is_last:
                answer = await pending.next()
                is_last = answer.last
                yield read_answer(answer)

    async def is_ready(self) -> bool:
        """See `AsyncTransport`. One process that can answer is enough."""
        await self._connected(TRANSLATE, self._connect_s)
        return True

    @property
    def metrics(self) -> Sequence[Figure]:
        """The metrics of all processes, summed, which they send if there is no Triton.

        Counters are totals of this transport: they go on when a process starts again.
        """
        sums: dict[_FigureKey, Figure] = {}
        for engine in self._engines:
            for key, figure in engine.metrics.items():
                before = sums[key].value if key in sums else 0.0
                sums[key] = replace(figure, value=before + figure.value)
        return [*sums.values()]

    async def close(self) -> None:
        """See `AsyncTransport`."""
        for engine in self._engines:
            engine.close()

    async def _connected(self, model: str, timeout_s: float) -> tuple[_Connection, float]:
        """Returns a connection for a model, when it can be written to, and the remaining time."""
        connection = self._choose(model)
        if connection is not None and connection.resumed is None:
            return connection, timeout_s
        deadline_s = time.monotonic() + timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                while connection is None or not connection.is_open:
                    await self._connect(model)
                    connection = self._choose(model)
                if connection.resumed is not None:
                    await asyncio.shield(connection.resumed)
        except TimeoutError:
            raise DeadlineExceeded("the engine accepted no request in time") from None
        return connection, max(deadline_s - time.monotonic(), 1e-3)

    def _choose(self, model: str) -> _Connection | None:
        """The connection to the process with the least work; equal ones take turns.

        Processes without a connection are connected to in the background. None: there is no
        connection.
        """
        turn = next(self._turns) % len(self._engines)
        least: _Engine | None = None
        for engine in (*self._engines[turn:], *self._engines[:turn]):
            if not engine.is_open(model):
                engine.connect(model)
            elif least is None or engine.load(model) < least.load(model):
                least = engine
        return None if least is None else least.connections[model]

    async def _connect(self, model: str) -> None:
        """Connect to all processes, and wait for the first connection."""
        connecting = {engine.connect(model) for engine in self._engines}
        while True:
            done, connecting = await asyncio.wait(connecting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if not task.cancelled() and task.exception() is None:
                    return
            if not connecting:
                await done.pop()  # it failed


class _Engine:
    """The connections to one engine process.

    Attributes:
        connections: the last connection for each model.
    """

    def __init__(self, path: str, late_s: float, connect_s: float) -> None:
        self.connections: dict[str, _Connection] = {}
        self._path, self._late_s, self._connect_s = path, late_s, connect_s
        self._connecting: dict[str, asyncio.Task[_Connection]] = {}
        self._metrics: dict[_FigureKey, Figure] = {}

    def is_open(self, model: str) -> bool:
        """Whether there is a connection for a model."""
        connection = self.connections.get(model)
        return connection is not None and connection.is_open

    def load(self, model: str) -> tuple[bool, int]:
        """Whether requests for a model must wait, and the size of all requests in flight."""
        work_bytes = sum(connection.work_bytes for connection in self.connections.values())
        return self.connections[model].resumed is not None, work_bytes

    @property
    def metrics(self) -> Mapping[_FigureKey, Figure]:
        """The metrics by name and labels; while there is no connection, gauges are 0."""
        if self.is_open(TRANSLATE):
            return self._metrics
        return {
            key: replace(figure, value=0.0) if figure.is_gauge else figure
            for key, figure in self._metrics.items()
        }

    def connect(self, model: str) -> asyncio.Task[_Connection]:
        """Connect once for all requests that wait for it."""
        connecting = self._connecting.get(model)
        if connecting is None:
            opening = _Connection.open(
                self._path, model, self._late_s, self._connect_s, self._add_up
            )
            connecting = self._connecting[model] = asyncio.create_task(opening)
            connecting.add_done_callback(lambda done: self._end(model, done))
        return connecting

    def close(self) -> None:
        """Close all connections."""
        for connecting in self._connecting.values():
            connecting.cancel()
        for connection in self.connections.values():
            connection.close()

    def _end(self, model: str, done: asyncio.Task[_Connection]) -> None:
        del self._connecting[model]
        if not done.cancelled() and done.exception() is None:
            self.connections[model] = done.result()

    def _add_up(self, figures: Sequence[Figure]) -> None:
        """Take metrics; those of counters are increases."""
        before = self._metrics
        self._metrics = {}
        for figure in figures:
            key = figure.name, figure.labels
            if not figure.is_gauge and key in before:
                figure = replace(figure, value=before[key].value + figure.value)
            self._metrics[key] = figure


class _Connection(asyncio.Protocol):
    """The connection for a model, with the requests that wait for an answer.

    Attributes:
        is_open: whether requests can be sent.
        resumed: done when the engine reads again; None: it reads.
        work_bytes: size of the requests in flight, a measure of their work.
    """

    def __init__(
        self, model: str, late_s: float, report: Callable[[Sequence[Figure]], None]
    ) -> None:
        self.is_open = False
        self.resumed: asyncio.Future[None] | None = None
        self.work_bytes = 0
        self._model, self._late_s, self._report = model, late_s, report
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._splitter = FrameSplitter()
        self._numbers = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._unsent: list[bytes] = []

    @classmethod
    async def open(
        cls,
        path: str,
        model: str,
        late_s: float,
        connect_s: float,
        report: Callable[[Sequence[Figure]], None],
    ) -> Self:
        """Connect, and wait until the engine accepts requests for the model."""
        connection = cls(model, late_s, report)
        try:
            async with asyncio.timeout(connect_s):
                await connection._loop.create_unix_connection(lambda: connection, path)
                await connection._ready
        except TimeoutError:
            connection.close()
            raise ServerUnavailable("the engine does not answer: it may be starting") from None
        except OSError as error:
            raise ServerUnavailable(f"{path}: {error.strerror or error}") from error
        except BaseException:
            connection.close()
            raise
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not of asyncio's class.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(pack_hello(Hello(self._model)))

    def data_received(self, data: bytes) -> None:
        try:
            for kind, body in self._splitter.feed(data):
                if kind is Kind.ANSWER:
                    self._take(unpack_answer(body))
                elif kind is Kind.READY and not self._ready.done():  # it may be cancelled
                    self.is_open = True
                    self._ready.set_result(None)
                elif kind is Kind.FIGURES:
                    self._report(unpack_figures(body))
                elif kind is Kind.REFUSED and not self._ready.done():
                    self._ready.set_exception(EngineRefusal(unpack_refused(body)))
            self._gather()
        except Damaged:  # the engine is of another release, or failed
            self.close()

    def connection_lost(self, _error: Exception | None) -> None:
        self.is_open = False
        if not self._ready.done():
            self._ready.set_exception(_ended())
        if self.resumed is not None:
            self.resume_writing()
        for pending in self._pending.values():
            pending.fail(_ended())
        self._pending.clear()
        self.work_bytes = 0

    def pause_writing(self) -> None:
        self.resumed = self._loop.create_future()

    def resume_writing(self) -> None:
        if self.resumed is not None:
            self.resumed.set_result(None)
            self.resumed = None

    def close(self) -> None:
        self.is_open = False
        if self._transport is not None:
            self._transport.close()

    def send(self, inputs: Mapping[str, Values], timeout_s: float) -> _Pending:
        """Send a request at the end of this turn of the event loop."""
        if not self.is_open:
            raise _ended()
        number = next(self._numbers)
        frame = request_frame(number, self._model, inputs, timeout_s)
        self._write(frame)
        pending = _Pending(self, number, len(frame), timeout_s + self._late_s)
        self._pending[number] = pending
        self.work_bytes += pending.work_bytes
        return pending

    def forget(self, number: int) -> None:
        """Cancel a request, unless its last answer has come."""
        if self._remove(number) and self.is_open:
            self._write(pack_cancel(number))

    def _remove(self, number: int) -> bool:
        """Whether a request was in flight; it no longer is."""
        pending = self._pending.pop(number, None)
        if pending is not None:
            self.work_bytes -= pending.work_bytes
        return pending is not None

    def _take(self, answer: Answer | Failure) -> None:
        pending = self._pending.get(answer.number)
        if pending is None:  # it was cancelled
            return
        if answer.last:
            self._remove(answer.number)
        if isinstance(answer, Failure):
            pending.fail(error_of(answer))
        else:
            pending.put(answer)

    def _gather(self) -> None:
        """Read later if many requests are in flight: each answer would wake this process."""
        used = len(self._pending)
        if used > _FEW and self.is_open and self._transport is not None:
            self._transport.pause_reading()
            self._loop.call_later(min(used * _GATHER_S, _MOST_GATHER_S), self._read_on)

    def _read_on(self) -> None:
        if self.is_open and self._transport is not None:
            self._transport.resume_reading()

    def _write(self, frame: bytes) -> None:
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(frame)

    def _flush(self) -> None:
        frames, self._unsent = self._unsent, []
        if self.is_open and self._transport is not None:
            self._transport.write(b"".join(frames))


class _Pending:
    """A request in flight, with what came for it and was not taken yet; a context manager."""

    def __init__(
        self, connection: _Connection, number: int, work_bytes: int, timeout_s: float
    ) -> None:
        self.work_bytes = work_bytes
        self._connection, self._number = connection, number
        self._answer: Answer | None = None
        self._error: TranslationError | None = None
        self._came: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(timeout_s, self._expire)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._connection.forget(self._number)

    async def next(self) -> Answer:
        """Wait for the next answer."""
        if self._answer is None and self._error is None:
            self._came = self._loop.create_future()
            await self._came
        if self._answer is not None:
            answer, self._answer = self._answer, None
            return answer
        assert self._error is not None
        raise self._error

    def put(self, answer: Answer) -> None:
        """Add an answer."""
        self._answer = answer if self._answer is None else merged(self._answer, answer)
        self._wake()

    def fail(self, error: TranslationError) -> None:
        """Add an error, which follows the answer that was not taken yet."""
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._came is not None and not self._came.done():
            self._came.set_result(None)

    def _expire(self) -> None:
        self.fail(EngineHangs("the engine did not answer in time"))


class BlockingEngineTransport:
    """`EngineTransport` for threads: its event loop has a thread of its own. See `blocking`."""

    def __init__(self, path: str, late_s: float = _LATE_S, connect_s: float = _CONNECT_S) -> None:
        """See `EngineTransport`."""
        self._transport = EngineTransport(path, late_s, connect_s)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="dragoman-engine", daemon=True
        )
        self._thread.start()

    async def infer(
        self, inputs: Mapping[str, Values], timeout_s: float, model: str = TRANSLATE
    ) -> Mapping[str, Values | None]:
        """See `AsyncTransport`."""
        return self._run(self._transport.infer(inputs, timeout_s, model))

    async def stream(
        self, inputs: Mapping[str, Values], timeout_s: float
    ) -> AsyncGenerator[Part, None]:
        """See `AsyncTransport`."""
        parts = self._transport.stream(inputs, timeout_s)
        try:
            while (part := self._run(anext(parts, None))) is not None:
                yield part
        finally:
            self._run(parts.aclose())

    async def is_ready(self) -> bool:
        """See `AsyncTransport`."""
        return self._run(self._transport.is_ready())

    async def close(self) -> None:
        """Close the connections, and end the thread."""
        if self._thread.is_alive():
            self._run(self._transport.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _run(self, work: Awaitable[_Result]) -> _Result:
        """Run in the event loop's thread, in the context of the caller's, and wait."""

        async def await_work() -> _Result:
            return await work

        running = asyncio.run_coroutine_threadsafe(await_work(), self._loop)
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise


def _ended() -> EngineEnded:
    return EngineEnded("the engine's process ended")

"""The transport to an engine's socket, with an engine of the test at the other end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import socket
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from dragoman_client import (
    AsyncTranslator,
    DeadlineExceeded,
    InvalidRequest,
    ServerError,
    ServerUnavailable,
    Translator,
)
from dragoman_client.core.trace_context import REQUEST_ID
from dragoman_client.transports.engine_transport import EngineHangs, EngineTransport, _Connection
from dragoman_options.frames import (
    Answer,
    DataType,
    ErrorCode,
    Failure,
    Figure,
    FrameSplitter,
    Hello,
    Kind,
    Request,
    RequestOptions,
    RequestParser,
    Tensor,
    join_paths,
    pack_figures,
    pack_ready,
    pack_refused,
    unpack_cancel,
)
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

WAIT_S = 60.0


class Engine:
    """An engine that notes what it receives.

    Attributes:
        reads: frames of each read from a connection, without its hello.
        refuses: why clients are refused; None: they are not.
        answers: whether requests are answered at once, with their texts in capitals.
        reads_on: whether it reads from its connections.
        accepts: whether it reads from new connections; else they wait for `accept`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reads: list[list[tuple[Kind, bytes]]] = []
        self.refuses: str | None = None
        self.answers = True
        self.reads_on = asyncio.Event()
        self.reads_on.set()
        self.accepts = True
        self._held: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self.writers: dict[str, asyncio.StreamWriter] = {}
        self._new = asyncio.Event()
        self._attending: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Engine]:
        server = await asyncio.start_unix_server(self._accept, self.path)
        try:
            yield self
        finally:
            server.close()
            self.end()
            self.reads_on.set()
            await asyncio.gather(*self._attending, return_exceptions=True)  # clients hang up

    def end(self) -> None:
        """Close all connections, as if the process had ended."""
        for writer in self.writers.values():
            writer.transport.abort()

    @property
    def requests(self) -> list[Request]:
        return [RequestParser().parse(body) for body in self._bodies(Kind.REQUEST)]

    @property
    def cancelled(self) -> list[int]:
        return [unpack_cancel(body) for body in self._bodies(Kind.CANCEL)]

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                self._new.clear()
                await self._new.wait()

    def send(self, model: str, answer: Answer | Failure) -> None:
        self.writers[model].write(answer.pack())

    def _bodies(self, kind: Kind) -> list[bytes]:
        return [body for read in self.reads for of, body in read if of is kind]

    def accept(self) -> None:
        """Read from the connections that wait, and from new ones."""
        self.accepts = True
        for reader, writer in self._held:
            self._accept(reader, writer)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.accepts:
            self._held.append((reader, writer))
            return
        self._attending.add(asyncio.create_task(self._attend(reader, writer)))

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        splitter = FrameSplitter()
        while received := await reader.read(1 << 20):
            frames = [*splitter.feed(received)]
            if frames and frames[0][0] is Kind.HELLO:
                hello = Hello.unpack(frames.pop(0)[1])
                self.writers[hello.model] = writer
                writer.write(pack_refused(self.refuses) if self.refuses else pack_ready("{}"))
            if frames:
                self.reads.append(frames)
            for kind, body in frames:
                if kind is Kind.REQUEST and self.answers:
                    request = RequestParser().parse(body)
                    writer.write(part(request, texts_of(request)[0].upper(), reason="stop").pack())
            self._new.set()
            await self.reads_on.wait()
        writer.close()


def texts_of(request: Request) -> list[str]:
    return [text.decode() for text in request.texts[0].values]


def part(
    request: Request, text: str, delta: str | None = None, reason: str = "", last: bool = True
) -> Answer:
    columns = [
        Tensor.of("text_output", DataType.BYTES, (1, 1), [text.encode()]),
        Tensor.of("output_tokens", DataType.INT32, (1, 1), [len(text)]),
        Tensor.of("finish_reason", DataType.BYTES, (1, 1), [reason.encode()]),
    ]
    if delta is not None:
        columns.append(Tensor.of("delta", DataType.BYTES, (1, 1), [delta.encode()]))
    return Answer(request.number, tuple(columns), last)


@contextlib.asynccontextmanager
async def served(folder: Path, **how: Any) -> AsyncIterator[tuple[Engine, AsyncTranslator]]:
    """An engine and a client of it."""
    async with Engine(folder / "s").running() as engine:
        url = f"unix:{engine.path}"
        async with AsyncTranslator(url, **{"timeout_s": WAIT_S, "retries": 0, **how}) as client:
            yield engine, client


@contextlib.asynccontextmanager
async def two_served(
    folder: Path, **how: Any
) -> AsyncIterator[tuple[list[Engine], AsyncTranslator]]:
    """Two engines and a client that is connected to both."""
    async with Engine(folder / "a").running() as first, Engine(folder / "b").running() as second:
        engines = [first, second]
        second._new = first._new  # conditions are about both
        url = f"unix:{join_paths(engine.path for engine in engines)}"
        async with AsyncTranslator(url, **{"timeout_s": WAIT_S, "retries": 0, **how}) as client:
            while not all(engine.requests for engine in engines):
                await client.translate("connects")
            for engine in engines:
                engine.reads.clear()
            yield engines, client


def numbers_of(engines: list[Engine]) -> list[int]:
    """How many requests each engine has received."""
    return [len(engine.requests) for engine in engines]


async def test_requests_go_to_the_engine_with_the_least_work(tmp_path: Path) -> None:
    async with two_served(tmp_path) as (engines, client):
        for engine in engines:
            engine.answers = False
        large = asyncio.create_task(client.translate("x" * 10_000))
        await asyncio.sleep(0)
        small = [asyncio.create_task(client.translate("x")) for _ in range(9)]
        await engines[0].until(lambda: sum(numbers_of(engines)) == 10)
        assert sorted(numbers_of(engines)) == [1, 9]
        (busy,) = (engine for engine in engines if len(engine.requests) == 1)
        (other,) = (engine for engine in engines if engine is not busy)
        busy.send("translate", part(busy.requests[0], "X", reason="stop"))
        await large
        small.append(asyncio.create_task(client.translate("x")))
        await busy.until(lambda: len(busy.requests) == 2)
        small.pop(0).cancel()
        for engine, requests in ((busy, busy.requests[1:]), (other, other.requests[1:])):
            for request in requests:
                engine.send("translate", part(request, "X", reason="stop"))
        await asyncio.gather(*small)
        await other.until(lambda: other.cancelled)  # not the other engine's request of that number
        assert other.cancelled == [other.requests[0].number]
        assert busy.cancelled == []


async def test_engines_with_equal_work_take_turns(tmp_path: Path) -> None:
    async with two_served(tmp_path) as (engines, client):
        for _ in range(6):
            await client.translate("x")
        assert numbers_of(engines) == [3, 3]


async def test_streams_and_requests_count_together(tmp_path: Path) -> None:
    async with two_served(tmp_path) as (engines, client):
        while not all("translate_stream" in engine.writers for engine in engines):
            assert [update.text async for update in client.translate_stream("x")] == ["X"]
        for engine in engines:
            engine.answers = False
            engine.reads.clear()
        stream = client.translate_stream("x" * 100)
        update = asyncio.create_task(anext(stream))
        await engines[0].until(lambda: sum(numbers_of(engines)) == 1)
        (free,) = (engine for engine in engines if not engine.requests)
        task = asyncio.create_task(client.translate("x"))
        await free.until(lambda: free.requests)
        (streaming,) = (engine for engine in engines if engine is not free)
        streaming.send("translate_stream", part(streaming.requests[0], "X", "X", reason="stop"))
        free.send("translate", part(free.requests[0], "X", reason="stop"))
        await asyncio.gather(update, task)
        await stream.aclose()


async def test_an_engine_that_ends_is_skipped_until_it_is_ready(tmp_path: Path) -> None:
    async with two_served(tmp_path) as (engines, client):
        ends, stays = engines
        ends.answers = stays.answers = False
        tasks = [asyncio.create_task(client.translate(text)) for text in "abcd"]
        await stays.until(lambda: numbers_of(engines) == [2, 2])
        stays.answers, ends.accepts = True, False
        ends.end()
        for request in stays.requests:
            stays.send("translate", part(request, "X", reason="stop"))
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert sorted(type(result).__name__ for result in results) == [
            *["EngineEnded"] * 2,
            *["Translation"] * 2,
        ]
        for _ in range(4):
            assert (await client.translate("x")).text == "X"
        assert numbers_of(engines) == [2, 6]
        assert (await client.health()).ready
        ends.accept()
        ends.answers = True
        while len(ends.requests) == 2:
            await client.translate("x")


async def test_no_request_is_lost_when_one_of_two_engines_ends(tmp_path: Path) -> None:
    async with two_served(tmp_path, retries=3) as (engines, client):
        for engine in engines:
            engine.answers = False
        texts = [f"text {number}" for number in range(50)]
        tasks = [asyncio.create_task(client.translate(text)) for text in texts]
        await engines[0].until(lambda: sum(numbers_of(engines)) == len(texts))
        for engine in engines:
            engine.answers = True
        engines[0].end()
        for request in engines[1].requests:
            text = texts_of(request)[0].upper()
            engines[1].send("translate", part(request, text, reason="stop"))
        answers = await asyncio.gather(*tasks)
        assert [answer.text for answer in answers] == [text.upper() for text in texts]


async def test_without_any_engine_a_server_is_unavailable(tmp_path: Path) -> None:
    async with two_served(tmp_path) as (engines, client):
        for engine in engines:
            engine.refuses = "no model"
            engine.end()
        transport = client._transport
        assert isinstance(transport, EngineTransport)
        while any(each.is_open("translate") for each in transport._engines):  # noqa: ASYNC110
            await asyncio.sleep(0)
        with pytest.raises(ServerError, match="no model"):
            await client.translate("x")
        assert not (await client.health()).ready
        engines[1].refuses = None
        assert (await client.translate("x")).text == "X"


@pytest.mark.parametrize("frame", [pack_ready("{}"), pack_refused("no model")])
async def test_an_engine_that_is_ready_too_late_is_ignored(tmp_path: Path, frame: bytes) -> None:
    """The client gave up, or was closed, while it connected in the background."""
    connections: list[_Connection] = []

    class Late(_Connection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            connections.append(self)

    async with Engine(tmp_path / "s").running() as engine:
        engine.accepts = False
        opening = Late.open(str(engine.path), "translate", WAIT_S, WAIT_S, lambda _: None)
        task = asyncio.create_task(opening)
        while not connections:  # noqa: ASYNC110  (no event)
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        connections[0].data_received(frame)
        assert not connections[0].is_open
        engine.accept()


async def test_metrics_of_engines_are_summed(tmp_path: Path) -> None:
    def frame(sentences: float, rows: float) -> bytes:
        counter = Figure(False, "sentences_total", "Sentences", sentences, (("bundle", "a"),))
        return pack_figures([counter, Figure(True, "rows", "Rows", rows)])

    async with two_served(tmp_path) as (engines, client):
        transport = client._transport
        assert isinstance(transport, EngineTransport)

        async def sums(sentences: float, rows: float) -> None:
            async with asyncio.timeout(WAIT_S):
                while [figure.value for figure in transport.metrics] != [sentences, rows]:  # noqa: ASYNC110  (no event)
                    await asyncio.sleep(0.001)

        for engine, values in zip(engines, ((2, 7), (3, 5)), strict=True):
            engine.writers["translate"].write(frame(*values))
        await sums(5, 12)
        engines[0].writers["translate"].write(frame(1, 0))
        await sums(6, 5)
        engines[1].end()
        await sums(6, 0)
        begun = len(engines[1].requests)
        while len(engines[1].requests) == begun:
            await client.translate("x")
        engines[1].writers["translate"].write(frame(4, 2))
        await sums(10, 2)


async def test_all_requests_of_a_turn_are_written_together(tmp_path: Path) -> None:
    async with served(tmp_path) as (engine, client):
        await client.translate("first")  # connects
        engine.reads.clear()
        texts = [f"text {number}" for number in range(20)]
        answers = await asyncio.gather(*(client.translate(text) for text in texts))
        assert [answer.text for answer in answers] == [text.upper() for text in texts]
        assert [len(read) for read in engine.reads] == [20]
        assert [texts_of(request) for request in engine.requests] == [[text] for text in texts]


async def test_a_request_has_its_options_deadline_id_and_trace(tmp_path: Path) -> None:
    assert not trace.get_current_span().get_span_context().is_valid
    async with served(tmp_path) as (engine, client):
        REQUEST_ID.set("abc")
        with TracerProvider().get_tracer("test").start_as_current_span("above") as span:
            await client.translate("a", target_language="de", beam_width=2)
        (request,) = engine.requests
        assert request.id == "abc"
        traceparent = json.loads(request.trace)["traceparent"]
        assert f"{span.get_span_context().trace_id:032x}" in traceparent
        assert 0.9 * WAIT_S < request.timeout_us / 1e6 <= WAIT_S
        options = RequestOptions.unpack(request.options)
        assert {tensor.name: tensor.values for tensor in options.inputs} == {
            "target_language": [b"de"],
            "beam_width": [2],
        }
        await client.translate("a")
        assert engine.requests[1].trace == ""


async def test_cancelling_a_small_request_cancels_it_alone(tmp_path: Path) -> None:
    async with served(tmp_path) as (engine, client):
        engine.answers = False
        tasks = [asyncio.create_task(client.translate(text)) for text in ("a", "b")]
        await engine.until(lambda: len(engine.requests) == 2)
        first, second = engine.requests
        tasks[0].cancel()
        await engine.until(lambda: engine.cancelled)
        assert engine.cancelled == [first.number]
        failure = Failure(first.number, ErrorCode.CANCELLED, "CANCELLED: cancelled")
        engine.send("translate", failure)
        engine.send("translate", part(second, "B", reason="stop"))
        assert (await tasks[1]).text == "B"
        assert tasks[0].cancelled()
        assert engine.cancelled == [first.number]


async def test_errors_keep_their_fields(tmp_path: Path) -> None:
    async with served(tmp_path) as (engine, client):
        engine.answers = False

        async def failing(code: ErrorCode, message: str, details: str = "") -> Exception:
            number = len(engine.requests)
            task = asyncio.create_task(client.translate("a"))
            await engine.until(lambda: len(engine.requests) > number)
            failure = Failure(engine.requests[-1].number, code, message, details)
            engine.send("translate", failure)
            (error,) = await asyncio.gather(task, return_exceptions=True)
            assert isinstance(error, Exception)
            return error

        fields = '{"kind":"too_large","text_index":0}'
        error = await failing(ErrorCode.INVALID_ARG, "text 0 is long", fields)
        assert isinstance(error, InvalidRequest)
        assert (str(error), error.kind, error.text_index) == ("text 0 is long", "too_large", 0)
        error = await failing(ErrorCode.UNAVAILABLE, "UNAVAILABLE: busy: try again in 7 s")
        assert isinstance(error, ServerUnavailable)
        assert error.retry_after_s == 7
        error = await failing(ErrorCode.INTERNAL, "INTERNAL: a fault")
        assert (type(error), str(error)) == (ServerError, "a fault")


async def test_a_slow_reader_of_a_stream_gets_merged_parts(tmp_path: Path) -> None:
    words = [f"word{number} " for number in range(500)]
    async with served(tmp_path) as (engine, client):
        engine.answers = False
        parts = client.translate_stream("a")
        first = asyncio.create_task(anext(parts))
        await engine.until(lambda: engine.requests)
        (request,) = engine.requests
        engine.send("translate_stream", part(request, words[0], words[0], last=False))
        received = [await first]
        for number in range(1, len(words)):
            text = "".join(words[: number + 1])
            engine.send("translate_stream", part(request, text, words[number], last=False))
        whole = "".join(words)
        engine.send("translate_stream", part(request, whole, "", reason="stop"))
        transport = client._transport
        assert isinstance(transport, EngineTransport)
        (pending,) = transport._engines[0].connections["translate_stream"]._pending.values()
        while pending._answer is None or not pending._answer.last:  # noqa: ASYNC110  (no event)
            await asyncio.sleep(0)
        received += [update async for update in parts]
        assert len(received) == 2
        assert received[-1].text == "".join(str(update.delta) for update in received) == whole
        assert engine.cancelled == []


async def test_closing_a_stream_cancels_it(tmp_path: Path) -> None:
    async with served(tmp_path) as (engine, client):
        engine.answers = False
        parts = client.translate_stream("a")
        first = asyncio.create_task(anext(parts))
        await engine.until(lambda: engine.requests)
        (request,) = engine.requests
        engine.send("translate_stream", part(request, "A", "A", last=False))
        assert (await first).text == "A"
        await parts.aclose()
        await engine.until(lambda: engine.cancelled)
        assert engine.cancelled == [request.number]


async def test_an_engine_that_refuses_says_why(tmp_path: Path) -> None:
    async with served(tmp_path) as (engine, client):
        engine.refuses = "the client has version 1 of the protocol and the engine 2"
        with pytest.raises(ServerError, match="the client has version 1"):
            await client.translate("a")
        assert (await client.health()).reason == engine.refuses


async def test_requests_of_an_engine_that_ends_fail_and_the_next_ones_reach_the_new_one(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as (engine, client):
        engine.answers = False
        tasks = [asyncio.create_task(client.translate(text)) for text in ("a", "b")]
        await engine.until(lambda: len(engine.requests) == 2)
        engine.answers = True
        engine.end()
        for error in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(error, ServerUnavailable), error
            assert error.retry_after_s is None
        assert (await client.translate("c")).text == "C"


async def test_a_client_with_retries_loses_no_request_when_the_engine_ends(tmp_path: Path) -> None:
    async with served(tmp_path, retries=3) as (engine, client):
        engine.answers = False
        texts = [f"text {number}" for number in range(50)]
        tasks = [asyncio.create_task(client.translate(text)) for text in texts]
        await engine.until(lambda: len(engine.requests) == len(texts))
        engine.answers = True
        engine.end()
        answers = await asyncio.gather(*tasks)
        assert [answer.text for answer in answers] == [text.upper() for text in texts]


async def test_an_engine_that_hangs_is_noticed(tmp_path: Path) -> None:
    async with Engine(tmp_path / "s").running() as engine:
        transport = EngineTransport(str(engine.path), late_s=0.1)
        async with AsyncTranslator(transport=transport, timeout_s=0.2, retries=0) as client:
            await transport.is_ready()
            engine.answers = False
            with pytest.raises(EngineHangs):
                await client.translate("a")
            await engine.until(lambda: engine.cancelled)


async def test_an_engine_that_accepts_nobody_is_unavailable(tmp_path: Path) -> None:
    transport = EngineTransport(str(tmp_path / "s"), connect_s=0.1)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        async with AsyncTranslator(transport=transport, retries=0) as client:
            with pytest.raises(ServerUnavailable, match="it may be starting"):
                await client.translate("a")
    async with AsyncTranslator(f"unix:{tmp_path}/none", retries=0) as client:
        with pytest.raises(ServerUnavailable, match="No such file"):
            await client.translate("a")


async def test_requests_wait_while_the_engine_does_not_read(tmp_path: Path) -> None:
    """What was not sent does not grow: requests wait, and fail when their time is over."""
    text = "x" * 100_000
    async with served(tmp_path, timeout_s=2) as (engine, client):
        await client.translate("first")
        engine.reads_on.clear()
        await client.translate("last")  # it reads nothing more
        sent = len(engine.requests)
        results = await asyncio.gather(
            *(client.translate(text) for _ in range(200)), return_exceptions=True
        )
        assert all(isinstance(answer, DeadlineExceeded) for answer in results)
        later = await asyncio.gather(client.translate("a"), return_exceptions=True)
        assert isinstance(later[0], DeadlineExceeded)
        engine.reads_on.set()
        assert (await client.translate("again")).text == "AGAIN"
        assert "a" not in [texts_of(request)[0] for request in engine.requests[sent:]]


async def test_a_request_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman_client.transports.engine_wire.MOST_BYTES", 10_000)
    async with served(tmp_path) as (engine, client):
        with pytest.raises(InvalidRequest, match="the request is larger") as caught:
            await client.translate("x" * 10_000)
        assert caught.value.kind == "too_large"
        assert (await client.translate("a")).text == "A"
        assert engine.cancelled == []


async def test_threads_share_a_blocking_client(tmp_path: Path) -> None:
    async with served(tmp_path) as (engine, _):

        def translate() -> None:
            with Translator(f"unix:{engine.path}") as client, ThreadPoolExecutor(8) as pool:
                texts = [f"text {number}" for number in range(64)]
                answers = [translation.text for translation in pool.map(client.translate, texts)]
                assert answers == [text.upper() for text in texts]
                assert [translation.text for translation in client.translate_stream("a")] == ["A"]
                assert client.is_ready()

        await asyncio.to_thread(translate)


async def test_nothing_is_left_behind(tmp_path: Path) -> None:
    async with served(tmp_path) as (engine, client):
        engine.answers = False
        for end in (lambda task: task.cancel(), lambda _: engine.end()):
            sent = len(engine.requests)
            tasks = [asyncio.create_task(client.translate("a")) for _ in range(10)]
            await engine.until(lambda sent=sent: len(engine.requests) == sent + 10)
            for task in tasks:
                end(task)
            await asyncio.gather(*tasks, return_exceptions=True)
            transport = client._transport
            assert isinstance(transport, EngineTransport)
            assert not transport._engines[0].connections["translate"]._pending
    gc.collect()  # a future that nobody awaits would warn


async def test_outputs_have_their_types(tmp_path: Path) -> None:
    async with Engine(tmp_path / "s").running() as engine:
        transport = EngineTransport(str(engine.path))
        outputs = await transport.infer({"text_input": [b"a"]}, WAIT_S)
        assert outputs == {"text_output": [b"A"], "output_tokens": [1], "finish_reason": [b"stop"]}
        await transport.close()


async def test_many_answers_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman_client.transports.engine_transport._MOST_GATHER_S", 1.0)
    monkeypatch.setattr("dragoman_client.transports.engine_transport._GATHER_S", 1.0)
    reads: list[bytes] = []
    data_received = _Connection.data_received

    def count(connection: _Connection, data: bytes) -> None:
        reads.append(data)
        data_received(connection, data)

    async with served(tmp_path) as (engine, client):
        engine.answers = False
        tasks = [asyncio.create_task(client.translate(f"text {n}")) for n in range(20)]
        await engine.until(lambda: len(engine.requests) == 20)
        monkeypatch.setattr(_Connection, "data_received", count)
        for request in engine.requests:
            engine.send("translate", part(request, texts_of(request)[0], reason="stop"))
            await asyncio.sleep(0.001)
        assert [translation.text for translation in await asyncio.gather(*tasks)] == [
            f"text {n}" for n in range(20)
        ]
        assert len(reads) == 2  # the first, and all that came in the second after it

"""The client with faulty servers: nothing hangs, and no text is lost, duplicated or reordered."""

import asyncio
import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from dragoman_client import (
    AsyncTranslator,
    DeadlineExceeded,
    ServerError,
    ServerUnavailable,
    TranslationError,
    Translator,
)
from dragoman_client.transports import event_lines
from faulty_servers import dribble, grpc_server, http_answer, http_server, reset
from tritonclient.grpc import service_pb2

TIMEOUT_S = 0.6
SILENCE_S = 120.0
GRACE_S = SILENCE_S / 2
"""Added to the deadline, for a machine that is busy."""


def ask(url: str, asynchronously: bool, streamed: bool = False, **more: Any) -> list[str]:
    """The texts that a request or a stream returns."""
    more = {"timeout_s": TIMEOUT_S, **more}
    if not asynchronously:
        with Translator(url, **more) as translator:
            if streamed:
                return [part.text for part in translator.translate_stream("a")]
            return [translator.translate("a").text]

    async def run() -> list[str]:
        async with AsyncTranslator(url, **more) as translator:
            if streamed:
                return [part.text async for part in translator.translate_stream("a")]
            return [(await translator.translate("a")).text]

    return asyncio.run(run())


def silence(_connection: socket.socket, _answer: bytes) -> None:
    """Send nothing, for longer than any timeout."""
    time.sleep(SILENCE_S)


def half_then_silence(connection: socket.socket, answer: bytes) -> None:
    """Send the first half, and then nothing."""
    connection.sendall(answer[: len(answer) // 2])
    time.sleep(SILENCE_S)


def half_then_gone(connection: socket.socket, answer: bytes) -> None:
    """Send the first half, and close the connection."""
    connection.sendall(answer[: len(answer) // 2])


def half_then_reset(connection: socket.socket, answer: bytes) -> None:
    """Send the first half, and reset the connection."""
    connection.sendall(answer[: len(answer) // 2])
    reset(connection)


def only_reset(connection: socket.socket, _answer: bytes) -> None:
    """Reset the connection without sending a byte."""
    reset(connection)


def no_http(connection: socket.socket, _answer: bytes) -> None:
    """Send bytes of another protocol."""
    connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n" * 50)


def endless_head(connection: socket.socket, _answer: bytes) -> None:
    """Send headers without an end."""
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X-More: and more\r\n" * 100)


def answer_with(body: bytes) -> Callable[..., None]:
    """A fault that sends this body."""

    def send(connection: socket.socket, _answer: bytes) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)

    return send


def outputs(**changes: Any) -> Callable[..., None]:
    """A fault that changes outputs of the answer; None: the output is left out."""
    right = {"text_output": "<a>", "output_tokens": 1, "finish_reason": "stop"}
    answer = {name: value for name, value in {**right, **changes}.items() if value is not None}
    return answer_with(json.dumps(answer).encode())


NONSENSE = {
    "no JSON": answer_with(b"<html>"),
    "nothing": answer_with(b""),
    "no UTF-8": answer_with(b'{"text_output": "\xff"}'),
    "half of it": answer_with(b'{"text_output": "<a>", "output_to'),
    "an array": answer_with(b"[1]"),
    "a number": answer_with(b"1"),
    "nested deep": answer_with(b"[" * 100_000),
    "no outputs": answer_with(b"{}"),
    "an output less": outputs(finish_reason=None),
    "two outputs for a text": outputs(text_output=["<a>", "<b>"]),
    "none for a text": outputs(output_tokens=[]),
    "a number for a text": outputs(text_output=5),
    "null for a text": answer_with(
        b'{"text_output": null, "output_tokens": 1, "finish_reason": "stop"}'
    ),
    "an object for a text": outputs(text_output={"a": 1}),
    "a list in a list": outputs(text_output=[["<a>", "<b>"]]),
    "no number of tokens": outputs(output_tokens="many"),
    "a lone surrogate": answer_with(
        b'{"text_output": "\\ud800", "output_tokens": 1, "finish_reason": "stop"}'
    ),
}


@contextmanager
def failing_in_time(kinds: Any) -> Iterator[None]:
    """An error of the client is raised soon after the timeout."""
    begin_s = time.monotonic()
    with pytest.raises(kinds):
        yield
    assert time.monotonic() - begin_s < TIMEOUT_S + GRACE_S


@pytest.mark.parametrize("asynchronously", [False, True])
@pytest.mark.parametrize(
    ("fault", "kinds"),
    [
        (silence, DeadlineExceeded),
        (half_then_silence, DeadlineExceeded),
        (half_then_gone, (ServerUnavailable, ServerError)),
        (half_then_reset, (ServerUnavailable, ServerError)),
        (only_reset, ServerUnavailable),
        (no_http, ServerUnavailable),
        (endless_head, TranslationError),
    ],
)
def test_broken_answers_over_http(
    fault: Callable[..., None], kinds: Any, asynchronously: bool
) -> None:
    with http_server(lambda _texts: fault) as (url, _), failing_in_time(kinds):
        ask(url, asynchronously, retries=0)  # a late retry could exceed the deadline


@pytest.mark.parametrize("asynchronously", [False, True])
@pytest.mark.parametrize("what", NONSENSE)
def test_invalid_answers_over_http(what: str, asynchronously: bool) -> None:
    """The client raises its own errors, not an exception of a library."""
    with (
        http_server(lambda _texts: NONSENSE[what]) as (url, _),
        pytest.raises((ServerError, ServerUnavailable)),
    ):
        ask(url, asynchronously, retries=0)


def test_a_slow_answer_ends_at_the_deadline() -> None:
    """Only with asyncio: the blocking client's timeout applies to each wait, as documented."""
    with http_server(lambda _texts: dribble) as (url, _), failing_in_time(DeadlineExceeded):
        ask(url, asynchronously=True)


def event(text: str, finish_reason: str) -> bytes:
    """An event of a stream."""
    outputs = {"text_output": text, "output_tokens": 1, "finish_reason": finish_reason}
    return f"data: {json.dumps(outputs)}\n\n".encode()


@pytest.mark.parametrize("asynchronously", [False, True])
@pytest.mark.parametrize("ending", [half_then_silence, half_then_gone, half_then_reset])
def test_interrupted_streams_over_http(ending: Callable[..., None], asynchronously: bool) -> None:
    """Each stream is interrupted after one part."""
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + event("<", "")

    def break_off(connection: socket.socket, _: bytes) -> None:
        ending(connection, whole * 2)

    with http_server(lambda _texts: break_off) as (url, _):
        begin_s = time.monotonic()
        with pytest.raises(TranslationError):
            ask(url, asynchronously, streamed=True)
        assert time.monotonic() - begin_s < TIMEOUT_S + GRACE_S


EVENT_STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(content: bytes) -> bytes:
    """A chunk of an answer whose length is not sent in advance."""
    return f"{len(content):x}\r\n".encode() + content + b"\r\n"


@pytest.mark.parametrize("asynchronously", [False, True])
def test_long_events_are_read(asynchronously: bool) -> None:
    """Events may exceed aiohttp's limit for a line, and may be split between chunks."""
    texts = ["a" * 12_000_000, "a" * 13_000_000]
    events = event(texts[0], "") + event(texts[1], "stop")

    def send(connection: socket.socket, _answer: bytes) -> None:
        middle = len(events) // 3
        connection.sendall(EVENT_STREAM + chunk(events[:middle]) + chunk(events[middle:]))
        connection.sendall(chunk(b""))

    with http_server(lambda _: send) as (url, _):
        assert ask(url, asynchronously, streamed=True, timeout_s=60) == texts


@pytest.mark.parametrize("asynchronously", [False, True])
def test_an_event_without_an_end_is_an_error(
    asynchronously: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is raised before an endless event fills the memory."""
    monkeypatch.setattr(event_lines, "MOST_LINE_BYTES", 1 << 20)

    def send(connection: socket.socket, _answer: bytes) -> None:
        connection.sendall(EVENT_STREAM + chunk(b"data: "))
        while True:
            connection.sendall(chunk(b"x" * 10_000))

    with http_server(lambda _: send) as (url, _), pytest.raises(ServerError) as caught:
        ask(url, asynchronously, streamed=True, timeout_s=60)
    message = "not an answer of Triton: a line of the stream is above 1,048,576 bytes"
    assert str(caught.value) == message


@pytest.mark.parametrize("streamed", [False, True])
def test_an_interrupted_answer_is_reported_as_interrupted(streamed: bool) -> None:
    """The message does not claim that an interrupted answer is not HTTP."""

    def send(connection: socket.socket, _answer: bytes) -> None:
        connection.sendall(EVENT_STREAM + b"20\r\ndata: ")

    with http_server(lambda _: send) as (url, _), pytest.raises(ServerUnavailable) as caught:
        ask(url, asynchronously=False, streamed=streamed, retries=0)
    assert str(caught.value).endswith(": the connection closed before the end of the answer")


def hang(_texts: list[str], response: Any, context: Any) -> Any:
    """Wait until the call has ended for the client."""
    gone = threading.Event()
    context.add_callback(gone.set)
    gone.wait(SILENCE_S)
    return response


def abort(code: grpc.StatusCode) -> Callable[..., Any]:
    """A fault that aborts with this status."""
    return lambda _texts, _response, context: context.abort(code, "no")


def change(edit: Callable[[Any], object]) -> Callable[..., Any]:
    """A fault that edits the correct answer."""

    def behave(_texts: list[str], response: Any, _context: Any) -> Any:
        wrong = service_pb2.ModelInferResponse()
        wrong.CopyFrom(response)
        edit(wrong)
        return wrong

    return behave


GRPC_FAULTS: dict[str, tuple[Callable[..., Any], Any]] = {
    "silence": (hang, DeadlineExceeded),
    "unavailable": (abort(grpc.StatusCode.UNAVAILABLE), ServerUnavailable),
    "resource exhausted": (abort(grpc.StatusCode.RESOURCE_EXHAUSTED), ServerError),
    "data loss": (abort(grpc.StatusCode.DATA_LOSS), ServerError),
    "an empty answer": (change(lambda r: r.Clear()), ServerError),
    "a tensor less": (change(lambda r: r.raw_output_contents.pop()), ServerError),
    "an output less": (change(lambda r: r.outputs.pop()), ServerError),
    "another datatype": (change(lambda r: setattr(r.outputs[0], "datatype", "FP32")), ServerError),
    "an unknown datatype": (change(lambda r: setattr(r.outputs[0], "datatype", "X")), ServerError),
    "a huge shape": (change(lambda r: r.outputs[0].shape.append(2**40)), ServerError),
    "a string cut off": (
        change(lambda r: r.raw_output_contents.__setitem__(0, b"\x09\0\0\0a")),
        ServerError,
    ),
    "half a number": (change(lambda r: r.raw_output_contents.__setitem__(1, b"\0")), ServerError),
    "no UTF-8": (
        change(lambda r: r.raw_output_contents.__setitem__(0, b"\x01\0\0\0\xff")),
        ServerError,
    ),
}


@pytest.mark.parametrize("asynchronously", [False, True])
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("what", GRPC_FAULTS)
def test_broken_answers_over_grpc(what: str, streamed: bool, asynchronously: bool) -> None:
    """Also in the second part of a stream."""
    behave, kinds = GRPC_FAULTS[what]
    with grpc_server(behave) as (url, _), failing_in_time(kinds):
        ask(url, asynchronously, streamed, retries=0)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (1, 2))]
)
@pytest.mark.parametrize("asynchronously", [False, True])
@pytest.mark.parametrize("protocol", ["grpc", "http"])
async def test_texts_are_translated_by_a_server_that_often_fails(
    protocol: str, asynchronously: bool, seed: int
) -> None:
    """About every third request fails and is retried; all texts are translated, in order."""
    generator, lock = random.Random(seed), threading.Lock()

    def draw() -> float:
        with lock:
            return generator.random()

    def over_http(_texts: list[str]) -> Any:
        chance = draw()
        if chance < 0.15:
            return only_reset
        if chance < 0.33:
            return lambda connection, _answer: connection.sendall(
                http_answer([], "503 Service Unavailable")
            )
        time.sleep(0.01 * draw())
        return None

    def over_grpc(_texts: list[str], response: Any, context: Any) -> Any:
        if draw() < 0.33:
            context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
        time.sleep(0.01 * draw())
        return response

    texts = [f"text {number}" for number in range(200)]
    server = grpc_server(over_grpc) if protocol == "grpc" else http_server(over_http)
    with server as (url, answered):
        settings = {"timeout_s": 60.0, "retries": 20}
        batches = {"batch_size": 5, "concurrency": 4}
        if asynchronously:
            async with AsyncTranslator(url, **settings) as client:
                answers = [t.text async for t in client.translate_batches(texts, **batches)]
        else:
            with Translator(url, **settings) as translator:
                answers = [t.text for t in translator.translate_batches(texts, **batches)]
    assert answers == [f"<{text}>" for text in texts]
    assert sorted(answered) == sorted(texts)  # none was translated twice

"""Triton's side of the socket with which models connect to the engine's process."""

from __future__ import annotations

import contextlib
import gc
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dragoman_options.client_frames import (
    pack_hello,
    pack_request,
    request_of,
    unpack_answer,
    unpack_refused,
)
from dragoman_options.frames import (
    Answer,
    DataType,
    ErrorCode,
    Failure,
    FrameSplitter,
    Hello,
    Kind,
    Tensor,
)
from dragoman_options.table import INFO, TRANSLATE
from dragoman_serving.service.engine_socket import EngineSocket
from dragoman_serving.service.models_to_serve import ModelsToServe
from dragoman_serving.service.server import Server

from tests.conftest import REPOSITORY

SHIPPED = ModelsToServe((str(REPOSITORY / "model_repository/translate/1/bundle"),))


class Triton:
    """A model's connection from Triton's side."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(60)
        self._socket.connect(str(path))
        self._splitter = FrameSplitter()
        self._frames: Iterator[tuple[Kind, bytes]] = iter(())

    def send(self, frame: bytes) -> None:
        self._socket.sendall(frame)

    def receive(self) -> tuple[Kind, bytes]:
        """The next frame; raises EOFError if the other side has closed."""
        while (frame := next(self._frames, None)) is None:
            received = self._socket.recv(1 << 16)
            if not received:
                raise EOFError
            self._frames = self._splitter.feed(received)
        return frame

    def answer(self) -> Answer | Failure:
        """The next answer."""
        while True:
            kind, body = self.receive()
            if kind is Kind.ANSWER:
                return unpack_answer(body)

    def failure(self) -> Failure:
        """The next answer, which is a failure."""
        failure = self.answer()
        assert isinstance(failure, Failure), failure
        return failure

    def introduce(self, hello: Hello) -> str | None:
        """Send the greeting; returns why it is refused, or None."""
        self.send(pack_hello(hello))
        while True:
            kind, body = self.receive()
            if kind is Kind.READY:
                return None
            if kind is Kind.REFUSED:
                return unpack_refused(body)

    def close(self) -> None:
        self._socket.close()


Connect = Callable[[], Triton]


def hello(model: str = TRANSLATE) -> Hello:
    return Hello(model, is_relay=True)


def ready(connect: Connect, model: str = TRANSLATE) -> Triton:
    """A model that is introduced."""
    triton = connect()
    assert triton.introduce(hello(model)) is None
    return triton


def request(number: int, texts: list[str], **parameters: Any) -> bytes:
    inputs = Tensor.of("text_input", DataType.BYTES, (len(texts),), [t.encode() for t in texts])
    return pack_request(request_of(number, 0, parameters, ("text_output",), (inputs,)))


def texts_of(answer: Answer | Failure) -> list[str]:
    assert isinstance(answer, Answer), answer
    (output,) = answer.outputs
    return [value.decode() for value in output.values]


@contextlib.contextmanager
def running(to_serve: ModelsToServe = SHIPPED, **how: Any) -> Iterator[tuple[Server, Connect]]:
    """A server on its own socket, and the models that connect to it."""
    threshold = gc.get_threshold()
    with EngineSocket() as door:
        server = Server(door.listening, to_serve, **how)
        serving = threading.Thread(target=server.serve, daemon=True)
        serving.start()
        with contextlib.ExitStack() as connected:
            yield server, lambda: connected.enter_context(contextlib.closing(Triton(door.path)))
            server.stop()
        serving.join(60)
        assert not serving.is_alive()
    gc.set_threshold(*threshold)


@contextlib.contextmanager
def served(to_serve: ModelsToServe = SHIPPED, **how: Any) -> Iterator[Connect]:
    """Models that connect to a server."""
    with running(to_serve, **how) as (_, connect):
        yield connect


def info_of(connect: Connect, **parameters: Any) -> Any:
    """The answer of the model `info`."""
    model = ready(connect, INFO)
    model.send(pack_request(request_of(1, 0, parameters, (INFO,), ())))
    answer = model.answer()
    assert isinstance(answer, Answer), answer
    return json.loads(answer.outputs[0].values[0])


def failures(triton: Triton, number: int) -> dict[int, tuple[ErrorCode, str]]:
    """Codes and messages of the next failures, by the numbers of their requests."""
    failed: dict[int, tuple[ErrorCode, str]] = {}
    while len(failed) < number:
        answer = triton.answer()
        if isinstance(answer, Failure):
            failed[answer.number] = (answer.code, answer.message)
    return failed


def pairs(number: int, texts: list[str], targets: list[str], **parameters: Any) -> bytes:
    inputs = tuple(
        Tensor.of(name, DataType.BYTES, (1, len(given)), [text.encode() for text in given])
        for name, given in (("text_input", texts), ("target_input", targets))
    )
    outputs = ("scores", "confidences", "token_scores", "alignments")
    return pack_request(request_of(number, 0, parameters, outputs, inputs))

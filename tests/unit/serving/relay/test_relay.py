"""The relay in Python, between an imitated Triton and an imitated engine."""

from __future__ import annotations

import contextlib
import importlib
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dragoman_serving.service.connection import Connection
from dragoman_serving.service.engine_socket import VARIABLE
from dragoman_serving.service.frames import (
    Answer,
    DataType,
    ErrorCode,
    Failure,
    Figure,
    Hello,
    Kind,
    Request,
    Tensor,
    pack_figures,
    pack_ready,
    pack_refused,
    unpack_cancel,
)

from tests.unit.serving.relay.fake_triton import FINAL, InferenceRequest, TritonError

GONE = "UNAVAILABLE: the engine's process has gone"
ARGUMENTS = {
    "model_name": "translate",
    "model_repository": "/models/translate",
    "model_version": "3",
    "model_config": '{"parameters": {}}',
}
TEXTS = np.array([["Straße".encode(), b"b\0"]], dtype=np.object_)


class Engine:
    """The engine's side of a model's connection."""

    def __init__(self, connected: socket.socket) -> None:
        self.connection = Connection(connected)
        self._frames = self.connection.frames()

    def receive(self, kind: Kind) -> bytes:
        found, body = next(self._frames)
        assert found is kind
        return body

    def take(self) -> Request:
        return Request.unpack(self.receive(Kind.REQUEST))

    def send(self, *frames: bytes) -> None:
        for frame in frames:
            self.connection.send(frame)

    def go(self) -> None:
        self.connection.hang_up()
        self.connection.close()


class Starting:
    """A model that is being initialized, and the engine that it has reached."""

    def __init__(self, module: Any, listening: socket.socket, pool: ThreadPoolExecutor) -> None:
        self.model: Any = module.TritonPythonModel()
        self.initialized: Future[None] = pool.submit(self.model.initialize, ARGUMENTS)
        connected, _ = listening.accept()
        self.engine = Engine(connected)


@pytest.fixture
def starting(triton: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Starting]:
    path = tmp_path / "engine.sock"
    monkeypatch.setenv(VARIABLE, str(path))
    module = importlib.import_module("dragoman_serving.relay.model")
    with socket.socket(socket.AF_UNIX) as listening, ThreadPoolExecutor(1) as pool:
        listening.bind(str(path))
        listening.listen()
        starting = Starting(module, listening, pool)
        yield starting
        starting.engine.go()


@pytest.fixture
def engine(starting: Starting) -> Engine:
    starting.engine.receive(Kind.HELLO)
    starting.engine.send(pack_ready())
    starting.initialized.result(60)
    return starting.engine


@pytest.fixture
def model(starting: Starting, engine: Engine) -> Iterator[Any]:
    yield starting.model
    starting.model.finalize()


def asked() -> InferenceRequest:
    return InferenceRequest({"text_input": TEXTS})


def failure(request: InferenceRequest) -> tuple[str, str]:
    response, flags = request.response()
    assert flags == FINAL
    assert response.error is not None
    return response.error.code, response.error.message


def test_the_engine_hears_what_triton_says(starting: Starting) -> None:
    hello = Hello.unpack(starting.engine.receive(Kind.HELLO))
    assert hello == Hello("/models/translate", 3, '{"parameters": {}}')
    starting.engine.send(pack_ready())
    starting.initialized.result(60)
    starting.model.finalize()


def test_a_refusal_is_passed_on(triton: Any, starting: Starting) -> None:
    starting.engine.send(pack_refused("no bündle"))
    with pytest.raises(triton.TritonModelException, match="no bündle"):
        starting.initialized.result(60)


def test_an_engine_that_goes_cannot_be_waited_for(triton: Any, starting: Starting) -> None:
    starting.engine.go()
    with pytest.raises(triton.TritonModelException, match=GONE):
        starting.initialized.result(60)


def test_nobody_there_is_an_error(
    triton: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = importlib.import_module("dragoman_serving.relay.model").TritonPythonModel()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none.sock"))
    with pytest.raises(triton.TritonModelException, match=r"none\.sock: No such file"):
        model.initialize(ARGUMENTS)
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(triton.TritonModelException, match="does not name the engine's socket"):
        model.initialize(ARGUMENTS)


def test_requests_go_out_whole(model: Any, engine: Engine) -> None:
    request = InferenceRequest(
        {
            "text_input": TEXTS,
            "beam_width": np.array([[4]], np.int32),
            "length_penalty": np.array([[0.5]], np.float32),
            "split_sentences": np.array([[True]], np.bool_),
        },
        ("text_output", "output_tokens"),
        timeout_us=5_000_000,
        parameters={"a": 1, "b": 1.5, "c": "ü", "d": False},
    )
    assert model.execute([request]) is None
    taken = engine.take()
    assert taken == Request(
        taken.number,
        5_000_000,
        {"a": 1, "b": 1.5, "c": "ü", "d": False},
        ("text_output", "output_tokens"),
        (
            Tensor.of("text_input", DataType.BYTES, (1, 2), ["Straße".encode(), b"b\0"]),
            Tensor.of("beam_width", DataType.INT32, (1, 1), [4]),
            Tensor.of("length_penalty", DataType.FP32, (1, 1), [0.5]),
            Tensor.of("split_sentences", DataType.BOOL, (1, 1), [True]),
        ),
    )


def test_each_request_gets_its_own_answers(model: Any, engine: Engine) -> None:
    first = InferenceRequest({"text_input": TEXTS}, ("text_output", "output_tokens"))
    second = asked()
    model.execute([first, second])
    one, two = engine.take().number, engine.take().number
    outputs = (
        Tensor.of("text_output", DataType.BYTES, (1, 2), ["Ä".encode(), b"b\0"]),
        Tensor.of("output_tokens", DataType.INT32, (1, 2), [1, 2]),
    )
    engine.send(
        Answer(99, outputs).pack(),  # nobody knows it
        Answer(two, outputs[:1], last=False).pack(),
        Answer(one, outputs).pack(),
        Failure(two, ErrorCode.INVALID_ARG, "too grün").pack(),
        Failure(two, ErrorCode.INVALID_ARG, "once more").pack(),
    )
    response, flags = first.response()
    assert flags == FINAL
    texts, tokens = (tensor.as_numpy() for tensor in response.tensors)
    assert texts.tolist() == [["Ä".encode(), b"b\0"]]
    assert tokens.tolist() == [[1, 2]]
    assert tokens.dtype == np.int32
    response, flags = second.response()
    assert flags == 0
    assert failure(second) == (TritonError.INVALID_ARG, "too grün")
    assert second.sender.sent.empty()


def test_when_the_engine_has_gone_every_request_hears_of_it(model: Any, engine: Engine) -> None:
    requests = [asked() for _ in range(3)]
    model.execute(requests)
    for _ in requests:
        engine.take()
    engine.go()
    later = asked()
    for request in requests:
        assert failure(request) == (TritonError.UNAVAILABLE, GONE)
    model.execute([later])
    assert failure(later) == (TritonError.UNAVAILABLE, GONE)


def test_an_engine_that_talks_nonsense_has_gone(model: Any, engine: Engine) -> None:
    request = asked()
    model.execute([request])
    engine.take()
    engine.send(b"\1\0\0\0\x63")
    assert failure(request) == (TritonError.UNAVAILABLE, GONE)


def test_the_engine_hears_who_has_cancelled(model: Any, engine: Engine) -> None:
    requests = [asked() for _ in range(3)]
    model.execute(requests)
    numbers = [engine.take().number for _ in requests]
    requests[1].sender.cancelled.set()
    assert unpack_cancel(engine.receive(Kind.CANCEL)) == numbers[1]
    engine.send(Failure(numbers[1], ErrorCode.CANCELLED, "cancelled").pack())
    assert failure(requests[1]) == (TritonError.CANCELLED, "cancelled")


def test_a_stream_that_cannot_be_told_is_given_up(model: Any, engine: Engine) -> None:
    request = asked()
    model.execute([request])
    number = engine.take().number
    request.sender.fails = 1
    output = Tensor.of("text_output", DataType.BYTES, (1,), [b"Ich"])
    engine.send(Answer(number, (output,), last=False).pack(), Answer(number, (output,)).pack())
    assert failure(request)[0] == TritonError.INTERNAL
    assert unpack_cancel(engine.receive(Kind.CANCEL)) == number
    assert request.sender.sent.empty()


def test_one_that_cannot_be_read_fails_alone(
    model: Any, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreadable, readable = asked(), asked()
    monkeypatch.setattr(unreadable, "parameters", lambda: "{")
    model.execute([unreadable, readable])
    expected = (TritonError.INTERNAL, "the request failed: JSONDecodeError")
    assert failure(unreadable) == expected
    engine.take()


def test_one_that_is_too_large_fails_alone(
    triton: Any, model: Any, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay = importlib.import_module("dragoman_serving.relay.python_relay")
    monkeypatch.setattr(relay, "MOST_BYTES", 1 << 20)
    large = InferenceRequest({"text_input": np.array([b"x" * (1 << 20)], dtype=np.object_)})
    small = asked()
    model.execute([large, small])
    expected = (TritonError.INVALID_ARG, "the request is larger than 1 MiB")
    assert failure(large) == expected
    engine.take()


FIGURES = [Figure(False, "sentences_total", "Sentences", 2.0), Figure(True, "rows", "Rows", 7.0)]


def test_figures_are_published(triton: Any, starting: Starting, model: Any, engine: Engine) -> None:
    request = asked()
    model.execute([request])
    none_new = [replace(FIGURES[0], value=0.0), FIGURES[1]]
    engine.send(*(pack_figures(figures) for figures in (FIGURES, FIGURES, none_new)))
    engine.send(Failure(engine.take().number, ErrorCode.INTERNAL, "").pack())
    request.response()  # by then the figures before it are written
    kind, counter = triton.MetricFamily.made["sentences_total"]
    assert (kind, counter.value, counter.writes) == (triton.MetricFamily.COUNTER, 4.0, 2)
    assert counter.labels == {"model": "translate"}
    kind, gauge = triton.MetricFamily.made["rows"]
    assert (kind, gauge.value, gauge.writes) == (triton.MetricFamily.GAUGE, 7.0, 1)


def test_figures_from_before_the_model_is_ready_count(triton: Any, starting: Starting) -> None:
    starting.engine.send(pack_figures(FIGURES), pack_ready())
    starting.initialized.result(60)
    assert triton.MetricFamily.made["sentences_total"][1].value == 2.0
    starting.model.finalize()


def test_without_a_metrics_port_answers_come_all_the_same(
    triton: Any, model: Any, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise triton.TritonModelException("metrics are not enabled")

    monkeypatch.setattr(triton.MetricFamily, "__init__", refuse)
    request = asked()
    model.execute([request])
    engine.send(pack_figures(FIGURES), pack_figures(FIGURES))
    engine.send(Failure(engine.take().number, ErrorCode.INVALID_ARG, "no").pack())
    assert failure(request) == (TritonError.INVALID_ARG, "no")


def test_finalizing_gives_up_what_is_in_flight(starting: Starting, engine: Engine) -> None:
    request = asked()
    with contextlib.closing(engine.connection):
        starting.model.execute([request])
        engine.take()
        starting.model.finalize()
        assert failure(request) == (TritonError.UNAVAILABLE, GONE)

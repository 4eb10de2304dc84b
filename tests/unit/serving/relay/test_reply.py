"""Answers on their way through Triton's Python backend, which is imitated here."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from tests.unit.serving.relay.fake_triton import (
    FINAL,
    InferenceRequest,
    InferenceResponse,
    Tensor,
    TritonError,
)


@pytest.fixture
def request_() -> InferenceRequest:
    return InferenceRequest({}, outputs=("text_output",))


@pytest.fixture
def reply(triton: Any, request_: InferenceRequest) -> Any:
    return importlib.import_module("dragoman_serving.relay.reply").Reply(request_)


def response() -> InferenceResponse:
    return InferenceResponse(
        [Tensor(name, np.zeros(1)) for name in ("text_output", "output_tokens", "finish_reason")]
    )


def test_no_tensor_is_freed_by_the_sender(reply: Any, request_: InferenceRequest) -> None:
    reply.send(response())
    sent, flags = request_.response()
    assert [tensor.name() for tensor in sent.tensors] == ["text_output"]
    assert flags == FINAL
    assert request_.sender.freed == []


def test_parts_are_followed_by_the_last_answer(reply: Any, request_: InferenceRequest) -> None:
    assert reply.send_part(response())
    assert not reply.is_answered
    reply.send(response())
    assert reply.is_answered
    assert [request_.response()[1] for _ in range(2)] == [0, FINAL]


def test_nobody_asks_after_the_last_answer(reply: Any, request_: InferenceRequest) -> None:
    assert not reply.is_cancelled()
    request_.sender.cancelled.set()
    assert reply.is_cancelled()
    reply.send(response())
    assert not reply.is_cancelled()
    assert not request_.sender.asked_too_late


@pytest.mark.parametrize("part", [True, False])
def test_an_error_stands_in_for_an_answer(
    reply: Any, request_: InferenceRequest, part: bool
) -> None:
    request_.sender.fails = 1
    if part:
        assert not reply.send_part(response())
    else:
        reply.send(response())
    assert reply.is_answered
    sent, flags = request_.response()
    assert flags == FINAL
    assert sent.error is not None
    assert sent.error.code == TritonError.INTERNAL
    assert sent.error.message == "the request failed: TritonModelException"


def test_when_nothing_can_be_sent_the_process_ends(
    reply: Any, request_: InferenceRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended(BaseException):
        pass

    def end(code: int) -> None:
        raise Ended(code)

    monkeypatch.setattr("os._exit", end)
    request_.sender.fails = 2
    with pytest.raises(Ended):
        reply.send(response())

"""Answers on their way through Triton's Python backend, which is imitated here."""

from __future__ import annotations

import importlib
import sys
import weakref
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

MODULE = "serving.triton_models.response"


class FakeTensor:
    def __init__(self, name: str, values: Any) -> None:
        self.name = name
        self.values = values


class FakeResponse:
    def __init__(self, tensors: list[FakeTensor]) -> None:
        self.tensors = tensors

    def output_tensors(self) -> list[FakeTensor]:
        return list(self.tensors)


class Sender:
    """Like Triton's: drops what the client did not ask for, then sends."""

    def __init__(self) -> None:
        self.freed: list[str] = []

    def send(self, response: FakeResponse, flags: int) -> None:
        unasked = {tensor.name: weakref.ref(tensor) for tensor in response.tensors}
        response.tensors.clear()
        self.freed += [name for name, tensor in unasked.items() if tensor() is None]


@pytest.fixture
def response(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    utils: Any = ModuleType("triton_python_backend_utils")
    utils.Tensor = FakeTensor
    utils.InferenceResponse = FakeResponse
    utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
    monkeypatch.setitem(sys.modules, utils.__name__, utils)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    yield importlib.import_module(MODULE)
    sys.modules.pop(MODULE)


def test_no_tensor_is_freed_by_the_sender(response: Any) -> None:
    sender = Sender()
    assert response.send(
        sender, response.of_texts(["Hallo."], [2], ["stop"], response.Form(["text_output"], (1, 1)))
    )
    assert sender.freed == []

"""Triton's side of its Python backend, imitated as far as the relay uses it."""

from __future__ import annotations

import json
import queue
import threading
import weakref
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

MODULE = "triton_python_backend_utils"
FINAL = 1
_TYPES: dict[int, type] = {1: np.bool_, 8: np.int32, 11: np.float32, 13: np.object_}


class TritonModelException(Exception):
    pass


class TritonError:
    INTERNAL, INVALID_ARG, UNAVAILABLE, CANCELLED = (
        "internal",
        "invalid",
        "unavailable",
        "cancelled",
    )

    def __init__(self, message: str, code: str = INTERNAL) -> None:
        self.message = message
        self.code = code


class Tensor:
    def __init__(self, name: str, array: npt.NDArray[Any]) -> None:
        self._name = name
        self._array = array

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> npt.NDArray[Any]:
        return self._array


class InferenceResponse:
    def __init__(
        self, output_tensors: list[Tensor] | None = None, error: TritonError | None = None
    ) -> None:
        self.tensors = output_tensors or []
        self.error = error

    def output_tensors(self) -> list[Tensor]:
        return list(self.tensors)


class Sender:
    """Like Triton's: drops what the client did not ask for, then sends."""

    def __init__(self, outputs: tuple[str, ...]) -> None:
        self.sent: queue.Queue[tuple[InferenceResponse, int]] = queue.Queue()
        self.cancelled = threading.Event()
        self.asked_too_late = False
        self.freed: list[str] = []
        self.fails = 0
        """So many answers cannot be sent."""
        self._outputs = outputs
        self._closed = False

    def send(self, response: InferenceResponse, flags: int) -> None:
        if self.fails:
            self.fails -= 1
            raise TritonModelException("no room")
        unasked = {
            tensor.name(): weakref.ref(tensor)
            for tensor in response.tensors
            if tensor.name() not in self._outputs
        }
        response.tensors[:] = [t for t in response.tensors if t.name() in self._outputs]
        self.freed += [name for name, tensor in unasked.items() if tensor() is None]
        self._closed = flags == FINAL
        self.sent.put((response, flags))

    def is_cancelled(self) -> bool:
        self.asked_too_late |= self._closed
        return self.cancelled.is_set()


class InferenceRequest:
    def __init__(
        self,
        inputs: dict[str, npt.NDArray[Any]],
        outputs: tuple[str, ...] = ("text_output",),
        timeout_us: int = 0,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        self.sender = Sender(outputs)
        self._inputs = [Tensor(name, array) for name, array in inputs.items()]
        self._outputs = outputs
        self._timeout_us = timeout_us
        self._parameters = json.dumps(parameters) if parameters else ""

    def inputs(self) -> list[Tensor]:
        return self._inputs

    def requested_output_names(self) -> tuple[str, ...]:
        return self._outputs

    def timeout(self) -> int:
        return self._timeout_us

    def parameters(self) -> str:
        return self._parameters

    def get_response_sender(self) -> Sender:
        return self.sender

    def response(self) -> tuple[InferenceResponse, int]:
        """The next answer that was sent, with its flags."""
        return self.sender.sent.get(timeout=60)


class Metric:
    def __init__(self, labels: dict[str, str]) -> None:
        self.labels = labels
        self.value = 0.0
        self.writes = 0

    def increment(self, value: float) -> None:
        self.value += value
        self.writes += 1

    def set(self, value: float) -> None:
        self.value = value
        self.writes += 1


class MetricFamily:
    COUNTER, GAUGE = "counter", "gauge"
    made: dict[str, tuple[str, Metric]]
    """Kind and metric by name."""

    def __init__(self, name: str, description: str, kind: str) -> None:
        self._name = name
        self._kind = kind

    def Metric(self, labels: dict[str, str]) -> Metric:  # noqa: N802
        metric = Metric(labels)
        self.made[self._name] = (self._kind, metric)
        return metric


def make_module() -> Any:
    """The module that Triton gives to its models."""
    module: Any = ModuleType(MODULE)
    for kind in (TritonModelException, TritonError, Tensor, InferenceResponse):
        setattr(module, kind.__name__, kind)
    module.MetricFamily = type("MetricFamily", (MetricFamily,), {"made": {}})
    module.TRITONSERVER_RESPONSE_COMPLETE_FINAL = FINAL
    module.triton_to_numpy_type = _TYPES.__getitem__
    module.numpy_to_triton_type = {np.dtype(kind): number for number, kind in _TYPES.items()}.get
    return module

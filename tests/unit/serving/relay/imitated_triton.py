"""Triton around the relay's C code: `tests/relay/imitation.c`, driven from Python."""

from __future__ import annotations

import ctypes
import queue
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman_options import frames

from tests.conftest import REPOSITORY

SOURCES = sorted((REPOSITORY / "serving" / "dragoman_serving" / "relay").glob("*.c"))
INCLUDE = f"-I{SOURCES[0].parent}"
_IMITATION = REPOSITORY / "tests/relay/imitation.c"
HEADERS = [SOURCES[0].with_name("triton.h"), _IMITATION.with_suffix(".h")]
FINAL = 1
_WAIT_S = 60
_KINDS: tuple[type, ...] = (str, int, bool, float)
"""In the order of Triton's numbers."""


class Tensor(ctypes.Structure):
    """See `tests/relay/imitation.h`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("dims", ctypes.c_uint32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("bytes", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("memory", ctypes.c_int),
    )


class Parameter(ctypes.Structure):
    """See `tests/relay/imitation.h`."""

    _fields_ = (("name", ctypes.c_char_p), ("type", ctypes.c_int), ("value", ctypes.c_void_p))


class Error(ctypes.Structure):
    """See `tests/relay/imitation.h`."""

    _fields_ = (("code", ctypes.c_int), ("message", ctypes.c_char_p))


class Model(ctypes.Structure):
    """See `tests/relay/imitation.h`."""

    _fields_ = (("state", ctypes.c_void_p),)


class _Request(ctypes.Structure):
    """See `tests/relay/imitation.h`."""

    _fields_ = (
        ("timeout_us", ctypes.c_uint64),
        ("parameter_count", ctypes.c_uint32),
        ("input_count", ctypes.c_uint32),
        ("output_count", ctypes.c_uint32),
        ("parameters", ctypes.POINTER(Parameter)),
        ("inputs", ctypes.POINTER(Tensor)),
        ("outputs", ctypes.POINTER(ctypes.c_char_p)),
        ("trace", ctypes.c_char_p),
        ("id", ctypes.c_char_p),
        ("lacks_tracing", ctypes.c_bool),
        ("cancelled", ctypes.c_bool),
        ("released", ctypes.c_int),
    )


STRUCTURES: dict[str, type[ctypes.Structure]] = {
    "Tensor": Tensor,
    "Parameter": Parameter,
    "TRITONSERVER_Error": Error,
    "TRITONBACKEND_Model": Model,
    "TRITONBACKEND_Request": _Request,
}
"""By the names of their types in C."""
_ErrorPointer = ctypes.POINTER(Error)
_OnResponse = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, _ErrorPointer, ctypes.c_uint32, ctypes.POINTER(Tensor)
)
_OnMetric = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_double)


@dataclass(frozen=True)
class Response:
    """What was sent for a request."""

    flags: int
    error: tuple[int, str] | None
    outputs: tuple[frames.Tensor, ...]


TEXTS = frames.Tensor.of("text_input", frames.DataType.BYTES, (1, 2), ["Straße".encode(), b"b\0"])


class Request:
    """A request of Triton's, and the responses to it."""

    def __init__(
        self,
        inputs: Sequence[frames.Tensor] = (TEXTS,),
        outputs: Sequence[str] = ("text_output",),
        timeout_us: int = 0,
        parameters: dict[str, Any] | None = None,
        trace: bytes | None = None,
        request_id: bytes = b"",
    ) -> None:
        self.responses: queue.Queue[Response] = queue.Queue()
        self._held: list[Any] = [inputs]
        given = [self._parameter(name, value) for name, value in (parameters or {}).items()]
        tensors = [self._tensor(tensor) for tensor in inputs]
        self.structure = _Request(
            timeout_us,
            len(given),
            len(tensors),
            len(outputs),
            (Parameter * len(given))(*given),
            (Tensor * len(tensors))(*tensors),
            (ctypes.c_char_p * len(outputs))(*(name.encode() for name in outputs)),
            trace,
            request_id,
        )

    def response(self) -> Response:
        """The next response; with the last one the request must be released."""
        response = self.responses.get(timeout=_WAIT_S)
        deadline = time.monotonic() + _WAIT_S
        while response.flags == FINAL and self.structure.released == 0:
            assert time.monotonic() < deadline, "a request is not released"
            time.sleep(0.001)
        return response

    def failure(self) -> tuple[int, str]:
        """Code and message of the last response."""
        response = self.response()
        assert (response.flags, self.structure.released) == (FINAL, 1)
        assert response.error is not None
        return response.error

    def _parameter(self, name: str, value: Any) -> Parameter:
        kind = _KINDS.index(type(value)) if type(value) in _KINDS else len(_KINDS)
        form = {int: ctypes.c_int64, bool: ctypes.c_bool, float: ctypes.c_double}.get(type(value))
        held: Any = form(value) if form else ctypes.create_string_buffer(str(value).encode())
        self._held.append(held)
        return Parameter(name.encode(), kind, ctypes.addressof(held))

    def _tensor(self, tensor: frames.Tensor) -> Tensor:
        shape = (ctypes.c_int64 * len(tensor.shape))(*tensor.shape)
        data = ctypes.create_string_buffer(tensor.data, len(tensor.data))
        self._held += [shape, data]
        return Tensor(
            tensor.name.encode(),
            tensor.datatype,
            len(tensor.shape),
            shape,
            len(tensor.data),
            ctypes.addressof(data),
        )


class Triton:
    """The relay, compiled together with an imitation of Triton, for one model at a time."""

    def __init__(self, library: Path) -> None:
        """Load a library that `compile_library` made."""
        self._library = ctypes.CDLL(str(library))
        for name in ("ModelInitialize", "ModelFinalize", "ModelInstanceExecute"):
            getattr(self._library, f"TRITONBACKEND_{name}").restype = _ErrorPointer
        self._callbacks = (_OnResponse(self._respond), _OnMetric(self._measure))
        for name, callback in zip(("on_response", "on_metric"), self._callbacks, strict=True):
            ctypes.c_void_p.in_dll(self._library, name).value = ctypes.cast(
                callback, ctypes.c_void_p
            ).value
        self.model = Model(None)
        self.metrics: list[tuple[int, str, str, float]] = []
        """Kind, name, labels and value of a written metric."""
        self._requests: dict[int, Request] = {}

    def initialize(self) -> tuple[int, str] | None:
        """Load the model: the error's code and message, or None."""
        return self._error(self._library.TRITONBACKEND_ModelInitialize(ctypes.byref(self.model)))

    def execute(self, *requests: Request) -> None:
        """Pass requests to the relay."""
        pointers = (ctypes.c_void_p * len(requests))()
        for index, request in enumerate(requests):
            pointers[index] = ctypes.addressof(request.structure)
            self._requests[ctypes.addressof(request.structure)] = request
        execute = self._library.TRITONBACKEND_ModelInstanceExecute
        assert self._error(execute(ctypes.byref(self.model), pointers, len(requests))) is None

    def ask(self) -> Request:
        """Pass a usual request to the relay."""
        request = Request()
        self.execute(request)
        return request

    def finalize(self) -> None:
        """Unload the model."""
        finalize = self._library.TRITONBACKEND_ModelFinalize
        assert self._error(finalize(ctypes.byref(self.model))) is None

    def close_metrics_port(self) -> None:
        """Make metrics fail, as without a metrics port."""
        ctypes.c_bool.in_dll(self._library, "has_metrics").value = False

    @property
    def families(self) -> int:
        """Number of existing metric families."""
        return ctypes.c_size_t.in_dll(self._library, "families").value

    def take_largest_array(self) -> int:
        """Bytes of the largest array that the relay has grown since the last call."""
        largest = ctypes.c_size_t.in_dll(self._library, "largest_array")
        size, largest.value = largest.value, 0
        return size

    def _error(self, pointer: Any) -> tuple[int, str] | None:
        if not pointer:
            return None
        error = pointer.contents.code, pointer.contents.message.decode()
        self._library.TRITONSERVER_ErrorDelete(pointer)
        return error

    def _respond(self, request: int, flags: int, error: Any, count: int, outputs: Any) -> None:
        self._requests[request].responses.put(
            Response(
                flags,
                (error.contents.code, error.contents.message.decode()) if error else None,
                tuple(map(_read, outputs[:count])),
            )
        )

    def _measure(self, kind: int, name: bytes, labels: bytes, value: float) -> None:
        self.metrics.append((kind, name.decode(), labels.decode(), value))


def compile_library(path: Path) -> None:
    """Compile the relay with the imitation around it."""
    flags = ["-std=gnu11", "-shared", "-fPIC", INCLUDE, "-Wl,-Bsymbolic", "-pthread"]
    flags.append("-Wl,--wrap=realloc")
    subprocess.run(["cc", *flags, _IMITATION, *SOURCES, "-o", path], check=True, timeout=_WAIT_S)


def _read(tensor: Tensor) -> frames.Tensor:
    data = ctypes.string_at(tensor.data, tensor.bytes)
    return frames.Tensor(
        tensor.name.decode(), tensor.type, tuple(tensor.shape[: tensor.dims]), data
    )

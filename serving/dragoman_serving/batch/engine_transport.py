"""A client transport to an engine process that it starts itself, without Triton."""

from __future__ import annotations

import itertools
import json
import socket
import threading
from collections.abc import Generator, Mapping
from concurrent.futures import Future
from typing import Any

import numpy as np
from dragoman_client.errors import (
    DeadlineExceeded,
    InvalidRequest,
    ServerError,
    TranslationError,
    from_status,
)
from dragoman_client.request import Part, microseconds
from dragoman_client.tensors import Array
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
    Hello,
    Kind,
    Tensor,
)
from dragoman_options.refusal import Refusal
from dragoman_options.table import INFO, OUTPUTS, TRANSLATE

from dragoman.kernel.errors import UsageError
from dragoman_serving.launch.engine_process import EngineProcess
from dragoman_serving.service.connection import Connection
from dragoman_serving.service.models_to_serve import ModelsToServe

_DTYPES = {
    np.dtype(np.bool_): DataType.BOOL,
    np.dtype(np.int32): DataType.INT32,
    np.dtype(np.int64): DataType.INT64,
    np.dtype(np.float32): DataType.FP32,
    np.dtype(np.object_): DataType.BYTES,
}
_OUTPUTS = {INFO: (INFO,), TRANSLATE: tuple(OUTPUTS)}
_NO_METRICS = 0
"""Metrics port of an engine without metrics."""
_LATE_S = 10.0
"""Seconds after the deadline of a request at which the engine counts as hanging."""


class EngineTransport:
    """An engine process as a `dragoman_client.transport.Transport`.

    The process starts with the first request. If it exits, all requests in flight fail, and the
    next request starts a new process.
    """

    def __init__(self, to_serve: ModelsToServe, parameters: Mapping[str, str]) -> None:
        """Store the settings; nothing is started yet.

        Args:
            to_serve: bundles of the engine.
            parameters: parameters of the engine, by name.
        """
        self._to_serve, self._parameters = to_serve, parameters
        self._lock = threading.Lock()
        self._engine: _RunningEngine | None = None

    def infer(
        self, inputs: Mapping[str, Array], timeout_s: float, model: str = TRANSLATE
    ) -> Mapping[str, Array | None]:
        """See `Transport`.

        Raises:
            UsageError: the bundles cannot be served.
        """
        engine = self._running()
        found = engine.ask(model, inputs, timeout_s)
        try:
            answer = found.result(timeout_s + _LATE_S)
        except TimeoutError:
            engine.kill()
            raise DeadlineExceeded(f"the engine hung for {timeout_s + _LATE_S:.1f} s") from None
        return {tensor.name: _array(tensor) for tensor in answer.outputs}

    def stream(self, inputs: Mapping[str, Array], timeout_s: float) -> Generator[Part, None, None]:
        """Not implemented, since corpora need no streams."""
        raise NotImplementedError

    def is_ready(self) -> bool:
        """See `Transport`."""
        return self._running().runs

    def close(self) -> None:
        """Stop the process."""
        with self._lock:
            if self._engine is not None:
                self._engine.stop()
            self._engine = None

    def _running(self) -> _RunningEngine:
        """The process, which is restarted if it has exited."""
        with self._lock:
            if self._engine is not None and not self._engine.runs:
                self._engine.stop()
                self._engine = None
            if self._engine is None:
                self._engine = _RunningEngine(self._to_serve, self._parameters)
            return self._engine


class _RunningEngine:
    """A process, with a connection for each model."""

    def __init__(self, to_serve: ModelsToServe, parameters: Mapping[str, str]) -> None:
        self._process = EngineProcess(_NO_METRICS, parameters, to_serve)
        self._models: dict[str, _Model] = {}
        try:
            # `translate` must be first, because it opens the bundles.
            for name in (TRANSLATE, INFO):
                self._models[name] = _Model(name, self._process)
        except BaseException:
            self.stop()
            raise

    @property
    def runs(self) -> bool:
        return self._process.runs and all(one.is_open for one in self._models.values())

    def ask(self, model: str, inputs: Mapping[str, Array], timeout_s: float) -> Future[Answer]:
        return self._models[model].ask(inputs, timeout_s)

    def kill(self) -> None:
        self._process.kill()

    def stop(self) -> None:
        for model in self._models.values():
            model.close()
        self._process.stop()


class _Model:
    """A model's connection to the process; answers come in any order."""

    def __init__(self, name: str, process: EngineProcess) -> None:
        self._name = name
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[Answer]] = {}
        self.is_open = True
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(str(process.path))
        self._connection = Connection(connected)
        self._connection.send(pack_hello(Hello("", 1, json.dumps({"name": name}))))
        self._frames = self._connection.frames()
        try:
            self._wait_until_ready()
        except BaseException:
            self._connection.close()
            raise
        self._reader = threading.Thread(target=self._read, name="dragoman-answers", daemon=True)
        self._reader.start()

    def ask(self, inputs: Mapping[str, Array], timeout_s: float) -> Future[Answer]:
        found: Future[Answer] = Future()
        number = next(self._numbers)
        tensors = [_tensor(name, array) for name, array in inputs.items()]
        request = request_of(number, microseconds(timeout_s), {}, _OUTPUTS[self._name], tensors)
        with self._lock:
            if not self.is_open:
                raise _ended()
            self._waiting[number] = found
        self._connection.send(pack_request(request))
        return found

    def close(self) -> None:
        self._connection.hang_up()
        self._reader.join()
        self._connection.close()

    def _wait_until_ready(self) -> None:
        for kind, body in self._frames:
            if kind is Kind.READY:
                return
            if kind is Kind.REFUSED:
                raise UsageError(unpack_refused(body))
        raise _ended()

    def _read(self) -> None:
        for kind, body in self._frames:
            if kind is Kind.ANSWER:
                answer = unpack_answer(body)
                waiting = self._waiting.pop(answer.number)
                if isinstance(answer, Failure):
                    waiting.set_exception(_error(answer))
                else:
                    waiting.set_result(answer)
        with self._lock:
            self.is_open = False
        for waiting in self._waiting.values():
            waiting.set_exception(_ended())


def _ended() -> ServerError:
    return ServerError("the engine's process ended by itself")


def _error(failure: Failure) -> TranslationError:
    if failure.code == ErrorCode.INVALID_ARG:
        fields = json.loads(failure.details or "{}")
        return InvalidRequest(*Refusal.with_fields(failure.message, fields))
    return from_status(None, failure.message)  # the message begins with the status


def _tensor(name: str, array: Array) -> Tensor:
    return Tensor.of(name, _DTYPES[array.dtype], array.shape, array.reshape(-1).tolist())


def _array(tensor: Tensor) -> Array:
    values: list[Any] = tensor.values
    dtype = next(ours for ours, theirs in _DTYPES.items() if theirs == tensor.datatype)
    return np.array(values, dtype).reshape(tensor.shape)

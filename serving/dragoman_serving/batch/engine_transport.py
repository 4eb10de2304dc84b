"""A client transport to an engine process that it starts itself, without Triton."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping

from dragoman_client.core.errors import ServerError
from dragoman_client.core.request import Part
from dragoman_client.core.tensors import Values
from dragoman_client.transports.blocking import run
from dragoman_client.transports.engine_transport import (
    BlockingEngineTransport,
    EngineEnded,
    EngineHangs,
    EngineRefusal,
)
from dragoman_options.table import TRANSLATE

from dragoman.kernel.errors import UsageError
from dragoman_serving.launch.engine_process import EngineProcess
from dragoman_serving.service.engine_socket import EngineSocket
from dragoman_serving.service.models_to_serve import ModelsToServe

_LATE_S = 10.0
"""Seconds after the deadline of a request at which the engine counts as hanging."""
_LOAD_S = 600.0
"""Timeout for loading the bundles."""


class EngineTransport:
    """An engine process as a `dragoman_client.transports.transport.Transport`.

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
        self._door = EngineSocket()
        self._engine: EngineProcess | None = None
        self._transport: BlockingEngineTransport | None = None

    def infer(
        self, inputs: Mapping[str, Values], timeout_s: float, model: str = TRANSLATE
    ) -> Mapping[str, Values | None]:
        """See `Transport`.

        Raises:
            UsageError: the bundles cannot be served.
        """
        engine, transport = self._running()
        try:
            return run(transport.infer(inputs, timeout_s, model))
        except EngineRefusal as error:
            raise UsageError(str(error)) from error
        except EngineEnded as error:
            engine.kill()  # its sockets close before it has exited
            raise ServerError("the engine's process ended by itself") from error
        except EngineHangs:
            engine.kill()
            raise

    def stream(self, inputs: Mapping[str, Values], timeout_s: float) -> Generator[Part, None, None]:
        """Not implemented, since corpora need no streams."""
        raise NotImplementedError

    def is_ready(self) -> bool:
        """See `Transport`."""
        return run(self._running()[1].is_ready())

    def close(self) -> None:
        """Stop the process."""
        with self._lock:
            self._stop()
            self._door.close()

    def _running(self) -> tuple[EngineProcess, BlockingEngineTransport]:
        """The process, which is restarted if it has exited, and its connections."""
        with self._lock:
            if self._engine is None or self._transport is None or not self._engine.runs:
                self._stop()
                self._engine = EngineProcess(
                    self._door, self._to_serve, parameters=self._parameters
                )
                path = str(self._door.path)
                self._transport = BlockingEngineTransport(path, _LATE_S, _LOAD_S)
            return self._engine, self._transport

    def _stop(self) -> None:
        if self._transport is not None:
            run(self._transport.close())
            self._transport = None
        if self._engine is not None:
            self._engine.stop()
            self._engine = None

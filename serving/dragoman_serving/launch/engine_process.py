"""Starts and stops the engine process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping

from dragoman.kernel.errors import DragomanError
from dragoman.kernel.tracing import TraceOptions
from dragoman_serving.launch.child_process import start_child
from dragoman_serving.launch.watch import Heartbeat
from dragoman_serving.service.engine_socket import EngineSocket
from dragoman_serving.service.models_to_serve import ModelsToServe

_STOP_S = 10
_NO_PARAMETERS: Mapping[str, str] = {}


class StartFailed(DragomanError):
    """A process of the server did not start."""


class EngineProcess:
    """The engine process, from its start, before a model is loaded, until it is stopped.

    Attributes:
        heartbeat: its heartbeats (`service.heartbeat`).
    """

    def __init__(
        self,
        door: EngineSocket,
        to_serve: ModelsToServe,
        metrics_port: int = 0,
        parameters: Mapping[str, str] = _NO_PARAMETERS,
        tracing: TraceOptions | None = None,
        name: str = "",
    ) -> None:
        """Start the process; bundles are loaded when the first client connects.

        Args:
            door: socket to which clients connect.
            to_serve: the bundles.
            metrics_port: Triton's metrics port, which clients can query; 0: there is no Triton.
            parameters: settings of the engine, and rules for requests.
            tracing: where to send spans; None: no tracing.
            name: of the process in its log; empty: it is the only one.
        """
        with contextlib.ExitStack() as undo:
            ours, theirs = os.pipe()
            undo.callback(os.close, ours)
            self.heartbeat = Heartbeat(ours)
            descriptors = [door.listening.fileno(), theirs]
            try:
                self._process = start_child(
                    # -P: do not import a package of that name from the working folder.
                    [
                        sys.executable,
                        "-P",
                        "-m",
                        "dragoman_serving.service",
                        *map(str, (*descriptors, metrics_port)),
                        json.dumps(dict(parameters)),
                        str(to_serve),
                        "" if tracing is None else tracing.url,
                        name,
                    ],
                    descriptors=descriptors,
                )
            finally:
                os.close(theirs)
            undo.pop_all()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill the process, even if it hangs."""
        self._process.kill()
        self._process.wait()

    def terminate(self) -> None:
        """Make the process stop when requests in flight have finished."""
        self._process.terminate()

    def stop(self) -> None:
        """Stop the process; requests in flight finish first."""
        self.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
        os.close(self.heartbeat.descriptor)

"""Starts and stops the engine process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping

from dragoman.kernel.tracing import TraceOptions
from dragoman_serving.launch.child_process import start_child
from dragoman_serving.service.engine_socket import listen, remove
from dragoman_serving.service.models_to_serve import ModelsToServe

_STOP_S = 10
_NO_PARAMETERS: Mapping[str, str] = {}


class EngineProcess:
    """The engine process, from its start, before a model is loaded, until it is stopped.

    Attributes:
        path: path of the socket to which models connect.
        heartbeat: file descriptor of its heartbeats (`service.heartbeat`).
    """

    def __init__(
        self,
        metrics_port: int,
        parameters: Mapping[str, str] = _NO_PARAMETERS,
        to_serve: ModelsToServe | None = None,
        tracing: TraceOptions | None = None,
    ) -> None:
        """Start the process; bundles are loaded when Triton's models connect.

        Args:
            metrics_port: Triton's metrics port, which clients can query.
            parameters: parameters that override those in the models' configurations.
            to_serve: bundles; None: the one in the folder of the model `translate`.
            tracing: where to send spans; None: no tracing.

        Raises:
            DragomanError: its socket cannot be made.
        """
        listening, self.path = listen()
        with contextlib.ExitStack() as undo, listening:
            undo.callback(remove, self.path)
            self.heartbeat, theirs = os.pipe()
            undo.callback(os.close, self.heartbeat)
            descriptors = [listening.fileno(), theirs]
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
                        str(to_serve or ModelsToServe()),
                        "" if tracing is None else tracing.url,
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
        """Kill the process, even if it hangs; `stop` removes its socket."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Stop the process, and remove its socket."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
        os.close(self.heartbeat)
        remove(self.path)

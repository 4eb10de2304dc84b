"""Starting and stopping the engine's process."""

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
    """The process that holds the engine, from before it loads a model until it is stopped.

    Attributes:
        path: of the socket at which models connect.
        heartbeat: file descriptor from which its signs of life are read (`service.heartbeat`).
    """

    def __init__(
        self,
        metrics_port: int,
        parameters: Mapping[str, str] = _NO_PARAMETERS,
        to_serve: ModelsToServe | None = None,
        tracing: TraceOptions | None = None,
    ) -> None:
        """Start it; it loads what Triton's models ask for.

        Args:
            metrics_port: of Triton, for clients that ask.
            parameters: of models, that come before those of their configurations.
            to_serve: bundles; None: the one in the folder of the model `translate`.
            tracing: where spans go; None: nothing is traced.

        Raises:
            DragomanError: there is no place for its socket.
        """
        listening, self.path = listen()
        with contextlib.ExitStack() as undo, listening:
            undo.callback(remove, self.path)
            self.heartbeat, theirs = os.pipe()
            undo.callback(os.close, self.heartbeat)
            descriptors = [listening.fileno(), theirs]
            try:
                self._process = start_child(
                    # -P: a folder of that name in the working folder is not ours.
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
        """Its process id."""
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it at once, also if it hangs; `stop` removes its socket."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it, and remove its socket."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
        os.close(self.heartbeat)
        remove(self.path)

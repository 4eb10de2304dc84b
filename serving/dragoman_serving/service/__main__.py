"""`python -m dragoman_serving.service SOCKET HEARTBEAT METRICS_PORT PARAMETERS MODELS OTLP NAME`.

The engine process.

SOCKET and HEARTBEAT are file descriptors: a listening socket, and the pipe for heartbeats.
METRICS_PORT is the port of Triton's metrics; 0: there is no Triton. PARAMETERS is a JSON object.
MODELS is written by `ModelsToServe`. OTLP is the URL of an OpenTelemetry collector, or empty.
NAME is the number of the process, for its log; empty: it is the only one.
"""

from __future__ import annotations

import json
import logging
import signal
import socket
import sys

from dragoman.kernel.tracing import TraceOptions, Tracing
from dragoman_serving.engine.batching.memory_trimming import return_large_blocks
from dragoman_serving.service.heartbeat import start_beating
from dragoman_serving.service.models_to_serve import ModelsToServe
from dragoman_serving.service.server import Server

_SWITCH_S = 0.0005
"""Seconds after which a thread passes on the GIL if another one waits: one tenth of Python's
default, because a worker that waits computes nothing."""


def main() -> None:
    """Serve until SIGTERM."""
    return_large_blocks()
    sys.setswitchinterval(_SWITCH_S)
    # Triton may share this log. It never holds texts.
    name = f" engine {sys.argv[7]}" if sys.argv[7] else ""
    logging.basicConfig(level=logging.INFO, format=f"dragoman{name}: %(message)s")
    listening = socket.socket(fileno=int(sys.argv[1]))
    tracing = Tracing(TraceOptions(sys.argv[6]), "dragoman-engine") if sys.argv[6] else None
    server = Server(
        listening,
        ModelsToServe.parse(sys.argv[5]),
        metrics_port=int(sys.argv[3]) or None,
        parameters=json.loads(sys.argv[4]),
        tracing=tracing,
    )
    start_beating(int(sys.argv[2]), lambda: server.busy)
    signal.signal(signal.SIGTERM, lambda _number, _frame: server.stop())
    try:
        server.serve()
    finally:
        if tracing is not None:
            tracing.close()


if __name__ == "__main__":
    main()

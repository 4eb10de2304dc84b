"""Starts Triton with the shipped model, and gateways in front of it, for a benchmark."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dragoman_serving.launch.launcher import TritonServer
from dragoman_serving.launch.serve_options import ServeOptions

from dragoman.kernel.errors import DragomanError
from dragoman.kernel.tracing import TraceOptions

REPOSITORY = Path(__file__).parents[2] / "model_repository"


def serve(tracing: TraceOptions | None = None) -> TritonServer:
    """Triton with the shipped model on free ports; a context."""
    options = ServeOptions(REPOSITORY, http_port=0, grpc_port=0, metrics_port=0, tracing=tracing)
    return TritonServer(options)


@dataclass(frozen=True)
class Running:
    """URLs of the running servers.

    Attributes:
        triton: Triton's HTTP.
        gateway: the gateway without a cache.
        caching: another gateway, with a cache.
    """

    triton: str
    gateway: str
    caching: str


@dataclass(frozen=True)
class RunningGateway:
    """A gateway's URL and process id."""

    url: str
    pid: int


@contextlib.contextmanager
def running() -> Iterator[Running]:
    """Start all of them on free ports, and stop them at the end."""
    with (
        serve() as server,
        run_gateway(server, "--cache-bytes=0") as plain,
        run_gateway(server) as caching,
    ):
        yield Running(server.http_url, plain.url, caching.url)


@contextlib.contextmanager
def run_gateway(server: TritonServer, *words: str) -> Iterator[RunningGateway]:
    """A gateway on a free port, with further options."""
    command = [sys.executable, "-m", "dragoman", "gateway", "--port=0"]
    command += [f"--triton={server.grpc_url}", f"--triton-http={server.http_url}", *words]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [*command, f"--folder={folder}"], stderr=subprocess.PIPE, text=True, env=os.environ
        )
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            found = re.match(r"ready: (\S+)", line)
            if not found:
                raise DragomanError(f"the gateway did not start: {line.strip()}")
            url = found[1].replace("localhost", "127.0.0.1")
            yield RunningGateway(url, process.pid)
        finally:
            process.terminate()
            process.wait(60)
            process.stderr.close()

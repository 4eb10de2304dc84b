"""Starts Triton with the shipped model, and gateways in front of it, for a measurement."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dragoman_serving.launch.launcher import TritonServer
from dragoman_serving.launch.serve_options import ServeOptions

from dragoman.kernel.errors import DragomanError
from lab.measurement import PROJECT


def serve(repository: Path = PROJECT / "model_repository") -> TritonServer:
    """Triton on free ports, with the shipped model by default; a context."""
    return TritonServer(ServeOptions(repository, http_port=0, grpc_port=0, metrics_port=0))


class Running(NamedTuple):
    """URLs of Triton's HTTP, of a gateway without a cache, and of one with a cache."""

    triton: str
    gateway: str
    caching: str


@contextlib.contextmanager
def running() -> Iterator[Running]:
    """Start all of them on free ports, and stop them at the end."""
    with (
        serve() as server,
        run_gateway(server, "--cache-bytes=0") as plain,
        run_gateway(server) as caching,
    ):
        yield Running(server.http_url, plain, caching)


@contextlib.contextmanager
def run_gateway(server: TritonServer, *words: str) -> Iterator[str]:
    """The URL of a gateway on a free port, with further options."""
    command = [sys.executable, "-m", "dragoman", "gateway", "--port=0"]
    command += [f"--triton={server.grpc_url}", f"--triton-http={server.http_url}", *words]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [*command, f"--folder={folder}"], stderr=subprocess.PIPE, text=True, env=os.environ
        )
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            ready = re.match(r"ready: (\S+)", line)
            if not ready:
                raise DragomanError(f"the gateway did not start: {line.strip()}")
            yield ready[1].replace("localhost", "127.0.0.1")
        finally:
            process.terminate()
            process.wait(60)
            process.stderr.close()

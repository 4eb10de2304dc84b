"""Starts Triton with the shipped model, and gateways in front of it, for a measurement."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
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
    """URLs of Triton's HTTP, and of gateways.

    Attributes:
        triton: Triton's HTTP.
        gateway: a gateway at the engine's socket, without a cache.
        caching: the same with a cache.
        over_grpc: a gateway that reaches Triton over gRPC, without a cache.
        pids: process ids of the gateways, by their URLs.
    """

    triton: str
    gateway: str
    caching: str
    over_grpc: str
    pids: Mapping[str, int]


@contextlib.contextmanager
def running() -> Iterator[Running]:
    """Start all of them on free ports, and stop them at the end."""
    with (
        serve() as server,
        run_gateway(server, "--cache-bytes=0") as plain,
        run_gateway(server) as caching,
        run_gateway(server, "--cache-bytes=0", triton=server.grpc_url) as over_grpc,
    ):
        pids = dict((plain, caching, over_grpc))
        yield Running(server.http_url, plain[0], caching[0], over_grpc[0], pids)


@contextlib.contextmanager
def run_gateway(
    server: TritonServer, *words: str, triton: str | None = None
) -> Iterator[tuple[str, int]]:
    """The URL of a gateway on a free port, and its process id.

    Args:
        server: the server behind it.
        words: further options.
        triton: how it reaches the server; None: by the engine's socket, as in `dragoman serve`.
    """
    command = [sys.executable, "-m", "dragoman", "gateway", "--port=0"]
    command += [f"--triton={triton or server.engine_url or server.grpc_url}"]
    command += [f"--triton-http={server.http_url}", *words]
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
            yield ready[1].replace("localhost", "127.0.0.1"), process.pid
        finally:
            process.terminate()
            process.wait(60)
            process.stderr.close()

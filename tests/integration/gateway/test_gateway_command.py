"""`dragoman gateway` as a process: its port, its responses, its end."""

from __future__ import annotations

import socket
import subprocess
import sys

from tests.conftest import REPOSITORY
from tests.gateways import StartGateway


def test_it_stops_cleanly(start_gateway: StartGateway) -> None:
    with start_gateway() as running:
        assert running.stop() == 0
        assert [line.partition(":")[0] for line in running.log] == ["ready", "stopping"]


def test_a_port_in_use_is_reported_in_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "dragoman", "gateway", f"--port={port}"],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line == (
        f"dragoman gateway: --address 127.0.0.1, --port {port}: Address already in use: "
        "name another, or 0 for a free port"
    )

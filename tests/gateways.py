"""Gateways under test: `dragoman gateway` on a free port."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.exchanges import WAIT_S, Answer, file_form, send

_READY = re.compile(r"^ready: (http://\S+:(\d+))$")


@dataclass
class RunningGateway:
    """A process of `dragoman gateway`.

    Attributes:
        process: the process.
        log: lines that it has written to stderr so far.
        url: its URL, without a trailing slash.
        port: its port.
        riva: address of Riva's protocol, if it is served.
        kserve: address of KServe's protocol over gRPC, if it is served.
    """

    process: subprocess.Popen[str]
    log: list[str] = field(default_factory=list)
    url: str = ""
    port: int = 0
    riva: str = ""
    kserve: str = ""

    def request(self, method: str, path: str, body: Any = None, **how: Any) -> Answer:
        """Send a request to a path with its query; see `send`."""
        return send(self.url + path, body, method=method, **how)

    def get(self, path: str, **how: Any) -> Answer:
        """Send a GET; see `request`."""
        return self.request("GET", path, **how)

    def post(self, path: str, body: Any, **how: Any) -> Answer:
        """Send a POST; see `request`."""
        return self.request("POST", path, body, **how)

    def upload(
        self, path: str, name: str, content: str, fields: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a file in a form.

        Args:
            path: where to.
            name: of the file.
            content: of it.
            fields: further ones of the form.
        """
        body, kind = file_form(name, content, fields or {})
        return self.post(path, body, headers=kind)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and wait for the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(WAIT_S)


@contextlib.contextmanager
def run_gateway(
    triton: str,
    triton_http: str,
    *words: str,
    environment: Mapping[str, str] | None = None,
    **settings: Any,
) -> Iterator[RunningGateway]:
    """A gateway on a free port.

    Args:
        triton: gRPC URL of the server behind it.
        triton_http: its HTTP URL.
        words: further command-line arguments.
        environment: further environment variables, such as secrets.
        settings: fields of `GatewaySettings`.
    """
    given = {"port": 0, "triton": triton, "triton_http": triton_http, **settings}
    command = [sys.executable, "-m", "dragoman", "gateway", *words]
    for name, value in given.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            command.append(f"--{flag}" if value else f"--no-{flag}")
        elif isinstance(value, tuple):
            command += [f"--{flag}", *map(str, value)] if value else []
        elif value is not None:
            command += [f"--{flag}", str(value)]
    process = subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env={**os.environ, **(environment or {})},
        stderr=subprocess.PIPE,
        text=True,
    )
    running = RunningGateway(process)
    reader = threading.Thread(target=_read, args=(process, running.log), daemon=True)
    reader.start()
    try:
        _wait_until_ready(running)
        yield running
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.stop()
        process.kill()
        process.wait()
        reader.join(10)


def _read(process: subprocess.Popen[str], lines: list[str]) -> None:
    assert process.stderr
    with process.stderr:
        for line in process.stderr:
            lines.append(line.rstrip("\n"))


def _wait_until_ready(running: RunningGateway) -> None:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline and running.process.poll() is None:
        for line in [*running.log]:
            name, _, url = line.partition(": grpc://")
            if name in ("riva", "kserve"):
                setattr(running, name, url)
            if match := _READY.match(line):
                running.url, running.port = (
                    match[1].replace("localhost", "127.0.0.1"),
                    int(match[2]),
                )
                return
        time.sleep(0.02)
    pytest.fail("the gateway did not get ready:\n" + "\n".join(running.log))


StartGateway = Callable[..., contextlib.AbstractContextManager[RunningGateway]]

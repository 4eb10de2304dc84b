"""Servers under test: Triton and the engine in a process of the test, or `dragoman serve`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from dragoman_client import TranslationError, Translator
from dragoman_serving.launch.launcher import TritonServer
from dragoman_serving.launch.processes import children
from dragoman_serving.launch.serve_options import ServeOptions

from tests.conftest import REPOSITORY
from tests.exchanges import WAIT_S as WAIT_S
from tests.exchanges import send

SENTENCE = "The weather is very nice today, and we are going to the beach with our friends."
LEAST_SENTENCES = 300
"""Our client does not cancel requests of less than 20,000 bytes."""
MOST_SENTENCES = 1000
"""Together they are shorter than the longest text that a server accepts."""
LONG_S = 6.0
"""Work that is cancelled lasts this long: metrics are up to a second old."""

READY = re.compile(r"ready: (http://\S+) and (grpc://\S+)")
SERVE = (sys.executable, "-m", "dragoman", "serve")
FREE_PORTS = tuple(f"--{name}-port=0" for name in ("http", "grpc", "metrics", "gateway"))
ONE_ENGINE = "--engines=1"
"""On every machine; a later flag overrides it."""

_PROGRAMS = {
    "triton": b"tritonserver",
    "engine": b"dragoman_serving.service",
    "gateway": b"--heartbeat",
}
_Request = TypeVar("_Request")


@dataclass
class Served:
    """A running server and a client for each protocol."""

    server: TritonServer
    grpc: Translator
    http: Translator
    _works: int = 0

    def generate(
        self, body: bytes | dict[str, Any], model: str = "translate"
    ) -> tuple[int, dict[str, Any]]:
        """Post to the `generate` endpoint: status and JSON."""
        url = f"{self.server.http_url}/v2/models/{model}/generate"
        answer = send(url, body, {"Content-Type": "application/json"})
        return answer.status, answer.json

    def events(self, **body: Any) -> list[dict[str, Any]]:
        """Post to the `generate_stream` endpoint: the JSON of each message."""
        url = f"{self.server.http_url}/v2/models/translate_stream/generate_stream"
        lines = send(url, body).body.decode().splitlines()
        return [json.loads(line.removeprefix("data: ")) for line in lines if line]

    def metric(self, name: str, bundle: str | None = None) -> float:
        """A metric of the engine, or of a bundle, from the metrics port."""
        of_bundle = "" if bundle is None else f'bundle="{bundle}",'
        labels = f'{{{of_bundle}model="translate"}}'
        match = re.search(rf"^dragoman_{name}{labels} (\S+)$", self._metrics(), re.MULTILINE)
        assert match, name
        return float(match[1])

    def buckets(self, name: str) -> dict[str, float]:
        """Buckets of an engine's histogram, by their label `le`, in the order of the bounds."""
        line = rf'^dragoman_{name}_bucket{{le="([^"]+)",model="translate"}} (\S+)$'
        buckets = re.findall(line, self._metrics(), re.MULTILINE)
        return {
            bound: float(value) for bound, value in sorted(buckets, key=lambda of: float(of[0]))
        }

    def long_work(self, least: int = LEAST_SENTENCES, long_s: float = LONG_S) -> list[str]:
        """Different sentences that take the engine this long in beam 4, at the current speed."""
        number, taken_s = 8, 0.0
        while taken_s < 0.3 and number < MOST_SENTENCES:
            number *= 2
            texts = [f"{number} {index}: {SENTENCE}" for index in range(number)]
            begin_s = time.monotonic()
            self.grpc.translate(texts, target_language="de", beam_width=4)
            taken_s = time.monotonic() - begin_s
        number = max(least, min(int(number * long_s / taken_s), MOST_SENTENCES))
        self._works += 1
        return [f"{self._works} {index}: {SENTENCE}" for index in range(number)]

    def _metrics(self) -> str:
        return send(f"http://127.0.0.1:{self.server.ports.metrics}/metrics").body.decode()

    def cancel(self, begin: Callable[[], _Request], end: Callable[[_Request], object]) -> None:
        """Begin a request, end it while the engine works on it, and wait until the engine stops.

        The request is one of `long_work`.
        """
        wait_for(lambda: self.metric("rows") == self.metric("waiting") == 0)
        before = self.metric("sentences_cancelled_total")
        request = begin()
        wait_for(lambda: self.metric("rows") > 0)
        end(request)
        wait_for(lambda: self.metric("sentences_cancelled_total") > before)
        wait_for(lambda: self.metric("rows") == self.metric("waiting") == 0)


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def tensor(texts: list[str]) -> triton_grpc.InferInput:
    """Texts as gRPC takes them."""
    made = triton_grpc.InferInput("text_input", [1, len(texts)], "BYTES")
    made.set_data_from_numpy(np.array([[text.encode() for text in texts]], dtype=np.object_))
    return made


@contextlib.contextmanager
def processes_run_first(code: str, folder: Path) -> Iterator[None]:
    """Python processes that start meanwhile run this code before all other; in an empty folder."""
    (folder / "sitecustomize.py").write_text(code, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)  # before this code's path
        yield


@contextlib.contextmanager
def serving(
    repository: Path | None = REPOSITORY / "model_repository", **options: Any
) -> Iterator[Served]:
    """A server on free ports, in this process.

    Args:
        repository: by default the shipped model's.
        options: further fields of `ServeOptions`.
    """
    # Long tests in other processes may leave a server little of the processor when it starts.
    defaults: dict[str, Any] = {
        "http_port": 0,
        "grpc_port": 0,
        "metrics_port": 0,
        "start_timeout_s": 600.0,
    }
    with (
        TritonServer(ServeOptions(repository, **{**defaults, **options})) as server,
        Translator(server.grpc_url, timeout_s=WAIT_S) as grpc,
        Translator(server.http_url, timeout_s=WAIT_S) as http,
    ):
        yield Served(server, grpc, http)


class ServeCommand:
    """A process of `dragoman serve` that logs to a file."""

    def __init__(
        self,
        log: Path,
        *words: str,
        program: Sequence[str] = SERVE,
        environment: Mapping[str, str | None] | None = None,
        cwd: Path = REPOSITORY,
        most_files: int | None = None,
        stderr: int | None = None,
    ) -> None:
        """Start it.

        Args:
            log: the file, which is replaced if this process writes it.
            words: further command-line arguments; ports are free ones by default.
            program: the command.
            environment: further environment variables; None removes one.
            cwd: the working directory.
            most_files: limit of open files.
            stderr: descriptor that gets the log, which its reader writes to the file.
        """
        self.log_path = log
        variables = {**os.environ, **(environment or {})}
        limit = "true" if most_files is None else f"ulimit -n {most_files}"
        if stderr is None:
            log.unlink(missing_ok=True)
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [
                    "/bin/sh",
                    "-c",
                    f'{limit} && exec "$@"',
                    "sh",
                    *program,
                    *FREE_PORTS,
                    ONE_ENGINE,
                    *words,
                ],
                cwd=cwd,
                env={name: value for name, value in variables.items() if value is not None},
                stderr=file if stderr is None else stderr,
            )

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self.log_path.read_text(errors="replace")

    @property
    def is_ready(self) -> bool:
        """Whether it has reported that it is ready."""
        return READY.search(self.log) is not None

    @property
    def http(self) -> str:
        """URL over HTTP."""
        return self._urls[0]

    @property
    def grpc(self) -> str:
        """URL over gRPC."""
        return self._urls[1]

    @property
    def _urls(self) -> tuple[str, str]:
        match = READY.search(self.log)
        assert match
        return match[1], match[2]

    @property
    def gateway(self) -> str:
        """URL of the gateway."""
        match = re.search(r"(http://localhost:\d+) \(gateway\)", self.log)
        assert match, self.log
        return match[1]

    @property
    def port(self) -> int:
        """Port of HTTP."""
        return int(self.http.rpartition(":")[2])

    def wait_for(self, condition: Callable[[], object]) -> None:
        """Wait until a condition is true, while the process runs."""
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.02)

    def pids(self) -> dict[str, int]:
        """The process ids of Triton, the engine and the gateway.

        The first of several engines is `engine`, and the others are `engine 2` and so on.
        """
        pids = {}
        for pid in children(self.process.pid):
            with contextlib.suppress(OSError):
                arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
                for name, program in _PROGRAMS.items():
                    # A child first runs a script that prepares it and has all its arguments.
                    if program in arguments and b"child_process" not in arguments:
                        number = arguments.split(b"\0")[-2].decode() if name == "engine" else ""
                        pids[name if number in ("", "1") else f"{name} {number}"] = pid
        return pids

    @contextlib.contextmanager
    def replacing(self, *names: str) -> Iterator[dict[str, int]]:
        """Check that these processes are replaced in the meantime and the others stay.

        Its value has the process ids of the former processes.
        """
        before = self.pids()
        yield before
        after = self.pids()
        assert after.keys() == before.keys(), self.log
        assert {name for name in before if before[name] != after[name]} == {*names}, self.log

    def translates(self) -> bool:
        """Whether it translates a sentence correctly."""
        with Translator(self.http, timeout_s=10, retries=0) as client:
            try:
                return client.translate("I'm hungry.").text == "Ich habe Hunger."
            except TranslationError:
                return False

    def gateway_is_ready(self) -> bool:
        """Whether its gateway reports that it is ready."""
        try:
            return send(f"{self.gateway}/readyz", timeout_s=10).status == 200
        except OSError:
            return False

    def gateway_translates(self) -> bool:
        """Whether its gateway translates a sentence correctly."""
        body = {"text": "I'm hungry.", "target_language": "de"}
        try:
            answer = send(f"{self.gateway}/api/v1/translate", body, timeout_s=10)
            return b"Ich habe Hunger." in answer.body
        except OSError:
            return False


@contextlib.contextmanager
def starting(folder: Path, *words: str, **how: Any) -> Iterator[ServeCommand]:
    """The command, logging to a folder; it may not be ready yet. See `ServeCommand`."""
    server = ServeCommand(folder / "log", *words, **how)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()


@contextlib.contextmanager
def running(folder: Path, *words: str, **how: Any) -> Iterator[ServeCommand]:
    """The command, when it is ready. See `ServeCommand`."""
    with starting(folder, *words, **how) as server:
        server.wait_for(lambda: server.is_ready)
        yield server

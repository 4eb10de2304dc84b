"""A server under test: `dragoman serve` as a process on loopback, and its resource usage.

Ports are outside the range that Linux uses for outgoing connections. A restart needs the same ports
again, and no connection of the campaign may occupy one of them.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.campaigns.sentence import ask, good_answer
from tests.servers import SERVE, ServeCommand

_FIRST_PORT, _LAST_PORT = 20_000, 32_000
_START_S = 120.0
_STOP_S = 60.0
_LOOK_S = 0.05
_TRY_S = 2.0


@dataclass(frozen=True)
class Usage:
    """Resources of a server's processes, by their names, such as `engine`."""

    memory_bytes: dict[str, int] = field(default_factory=dict)
    sockets: dict[str, int] = field(default_factory=dict)


class CampaignServer:
    """A running server; use it as a context."""

    def __init__(
        self, prefix: Sequence[str] = (), gateway: bool = False, models: Sequence[str] = ()
    ) -> None:
        """Prepare; entering the context starts it.

        Args:
            prefix: a command that executes the command after it, with limits or mounts of its own.
            gateway: whether to start the gateway too.
            models: arguments of `dragoman serve` for models other than the shipped one; then
                translations are not compared with the shipped model's.
        """
        self._models = models
        ports = steady_ports(6)
        self.http_port, self.grpc_port, self.metrics_port, self.gateway_port = ports[:4]
        self.riva_port, self.kserve_port = ports[4:]
        self._has_gateway = gateway
        self._state = tempfile.TemporaryDirectory()
        self.stop_s = 0.0
        """Duration of the stop."""
        self.gave_up = 0
        """How often the launcher ended by itself, so that `revive` restarted it."""
        self._prefix = prefix
        self._commands: list[ServeCommand] = []
        self._seen = defaultdict[str, set[int]](set)
        self._stopping = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> CampaignServer:
        """Start the server and wait until it translates."""
        self._start()
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server."""
        self._end()
        self._state.cleanup()

    @property
    def folder(self) -> Path:
        """The folder of the gateway's state."""
        return Path(self._state.name)

    @property
    def log(self) -> str:
        """The log of the launcher, Triton and the engine."""
        return "".join(command.log for command in self._commands)

    @property
    def log_bytes(self) -> int:
        """Size of the log."""
        return sum(command.log_path.stat().st_size for command in self._commands)

    @property
    def crashes(self) -> int:
        """How often a process was replaced, by the launcher or by `revive`."""
        return max(map(len, self._seen.values()), default=1) - 1

    @property
    def last_words(self) -> dict[str, int]:
        """Signals and failed assertions that Triton logged, each with its count."""
        return dict(Counter(re.findall(r"Signal \(\d+\)|ASSERTION FAILED.{0,60}", self.log)))

    @property
    def _process(self) -> subprocess.Popen[bytes]:
        return self._commands[-1].process

    def pids(self) -> dict[str, int]:
        """Process ids of `triton`, `engine` and `gateway`, if they run."""
        return self._commands[-1].pids()

    def usage(self) -> Usage:
        """Memory and sockets of both processes now."""
        memory_bytes, sockets = {}, {}
        for name, pid in self.pids().items():
            with contextlib.suppress(OSError):
                memory_bytes[name] = resident_bytes(Path(f"/proc/{pid}/status").read_text())
                sockets[name] = sum(map(_is_socket, Path(f"/proc/{pid}/fd").iterdir()))
        return Usage(memory_bytes, sockets)

    def revive(self, timeout_s: float) -> str | None:
        """Wait until the server is back; help it if it does not recover by itself.

        Args:
            timeout_s: for the server itself.

        Returns:
            None if it came back, `hung` if Triton had to be killed for it, `ended` if the launcher
            had ended and was restarted.
        """
        with contextlib.suppress(TimeoutError):
            self.wait_until_good(timeout_s)
            return None
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self.kill("triton")
            with contextlib.suppress(TimeoutError):
                self.wait_until_good(_START_S)
                return "hung"
        self.gave_up += 1
        self._start()
        return "ended"

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to `triton` or `engine`.

        Raises:
            ProcessLookupError: it does not run.
        """
        pid = self.pids().get(name)
        if pid is None:
            raise ProcessLookupError(f"{name} does not run")
        os.kill(pid, number)

    def wait_until_good(self, timeout_s: float) -> float:
        """Wait until a good sentence is translated correctly.

        Returns:
            How long that took, in seconds.

        Raises:
            TimeoutError: it was not, or the server ended.
        """
        start = time.monotonic()
        while not self._translates():
            if self._process.poll() is not None or time.monotonic() - start > timeout_s:
                raise TimeoutError(f"the server does not translate:\n{self.log[-2000:]}")
            time.sleep(_LOOK_S)
        return time.monotonic() - start

    def _translates(self) -> bool:
        if self._models:
            return ask(self.http_port, _TRY_S) is not None
        return good_answer(self.http_port, _TRY_S)

    def settle(self, seconds: float) -> None:
        """Wait for connections to close before usage is read."""
        time.sleep(seconds)

    def _watch(self) -> None:
        while not self._stopping.wait(_LOOK_S):
            for name, pid in self.pids().items():
                self._seen[name].add(pid)

    def _start(self) -> None:
        words = [*self._models, "--on-failure", "restart"]
        ports = {"http": self.http_port, "grpc": self.grpc_port, "metrics": self.metrics_port}
        if self._has_gateway:
            ports |= {"gateway": self.gateway_port, "gateway-riva": self.riva_port}
            ports["gateway-kserve"] = self.kserve_port
            words += ["--gateway-folder", self._state.name]
        else:
            words.append("--no-gateway")
        words += [f"--{name}-port={port}" for name, port in ports.items()]
        log = Path(self._state.name) / f"log-{len(self._commands)}"
        self._commands.append(ServeCommand(log, *words, program=(*self._prefix, *SERVE)))
        try:
            self.wait_until_good(_START_S)
            # Before it is ready, a fault makes its start fail.
            self._commands[-1].wait_for(lambda: self._commands[-1].is_ready)
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        self._stopping.set()
        for pid in self.pids().values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        start = time.monotonic()
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.stop_s = time.monotonic() - start


def resident_bytes(status: str) -> int:
    """The resident memory in `/proc/PID/status`."""
    match = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def _is_socket(descriptor: Path) -> bool:
    try:
        return os.readlink(descriptor).startswith("socket:")
    except OSError:  # closed meanwhile
        return False


def steady_ports(count: int) -> list[int]:
    """Free ports that no outgoing connection uses while a server is down."""
    candidates = iter(random.SystemRandom().sample(range(_FIRST_PORT, _LAST_PORT), 500))
    return [next(port for port in candidates if _is_free(port)) for _ in range(count)]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True

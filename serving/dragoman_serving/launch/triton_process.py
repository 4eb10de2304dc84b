"""The Triton process: its arguments, environment, readiness and end."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from dragoman_options.table import INFO

from dragoman.kernel.tracing import TraceOptions
from dragoman_serving.launch.backends import Installation
from dragoman_serving.launch.child_process import start_child
from dragoman_serving.launch.engine_group import EngineGroup
from dragoman_serving.launch.engine_process import StartFailed
from dragoman_serving.launch.ports import Ports
from dragoman_serving.launch.processes import blocks_signals, memory_bytes
from dragoman_serving.launch.repository import MODEL, BundleList, Repository
from dragoman_serving.launch.serve_options import ServeOptions
from dragoman_serving.launch.server_log import LogPipe
from dragoman_serving.launch.watch import Watch
from dragoman_serving.service.engine_socket import VARIABLE

DRAIN_S = 30
"""Seconds for which Triton waits for requests in flight after SIGTERM."""
_CLOSED_ENDPOINTS = "shared-memory,model-repository,trace,logging"
_CLOSED_HEADER = "Dragoman Closed:=\n\n"
"""Name and value of the header that would open the endpoints. No request can have this name: gRPC
refuses a header name with a capital, a space or a colon, and in HTTP/1.1 a name ends at a colon. An
impossible value alone would not be enough, because gRPC accepts any value. A secret value could be
read from the command line by every user of the machine."""
_STACK_BYTES = 2 << 30
"""Triton 24.10 puts 16 bytes on a thread's stack for each chunk of an HTTP body (CVE-2025-23310),
and some 280 for each level of nested JSON: with 1 GiB, 4 million levels (8 MB) crash it.
Threads get stacks of this size; only touched pages take memory."""
_KEPT_BYTES = 128 << 10
"""Larger blocks that Triton frees are returned to the system."""
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108
_KEEPALIVE_MS = 60_000
_LEAST_PING_MS = 4_000
"""Least time between two pings of a client. Load balancers send pings to detect a server that
hangs; by default, Triton closes a connection with more than two in five minutes."""
_CRASH_SIGNALS = (signal.SIGSEGV, signal.SIGABRT)
_CRASHING_S = 0.5
"""Time for Triton to write a stack trace and exit, after it has logged one of these signals."""
_GIVING_UP_S = 5.0
"""Time for Triton to exit after a model was not loaded."""
_READY_POLL_S = 0.02
_FIRST_PATIENCE_S, _MOST_PATIENCE_S = 1.0, 30.0
"""Timeout of the first translation, doubling with each try: a Triton that crashed may hang
silently, and the first translation of a large model takes long."""


class TritonCrashed(StartFailed):
    """Triton crashed, or hangs in a crash, during its start; the engine may be unaffected."""


class TritonProcess:
    """The Triton process, from its start until it is killed."""

    def __init__(
        self,
        options: ServeOptions,
        repository: Repository | BundleList,
        more_models: Path,
        ports: Ports,
        installation: Installation,
        engines: EngineGroup | None,
        log: LogPipe,
    ) -> None:
        """Start Triton.

        Args:
            options: options of the server.
            repository: repository with the models to load.
            more_models: repository of `info`, and of other models of the engine that are in no
                other repository.
            ports: ports to listen on.
            installation: the server's files, with the backends that it may load.
            engines: the engine processes, if a model needs them.
            log: pipe for its log.
        """
        self._options, self._engines, self._log = options, engines, log
        self._url = f"http://{options.client_address}:{ports.http}"
        self._first_bytes = 0
        self._prefix = f"dragoman_{os.getpid()}_{secrets.token_hex(4)}_"
        log.tells_of_crash = False
        # Triton logs to stderr, but also some lines to stdout, which is for our results.
        process = start_child(
            [
                *_command(options, repository, ports, installation),
                *(_info(more_models) if engines is not None else ()),
                f"--backend-config=python,shm-region-prefix-name={self._prefix}",
            ],
            environment=_environment(installation, "" if engines is None else engines.paths),
            stack_bytes=_STACK_BYTES,
            output=log.descriptor,
        )
        self.pid = process.pid
        self.poll, self.wait, self.terminate = process.poll, process.wait, process.terminate

    def wait_until_ready(self, watch: Watch, engine_loads: bool) -> None:
        """Try to translate until it works.

        Args:
            watch: watch of the processes.
            engine_loads: whether the engine is loading, and may be silent for long.

        Raises:
            StartFailed: a process exited or hangs, or the timeout has passed.
        """
        deadline = time.monotonic() + self._options.start_timeout_s
        last_error: Exception | None = None
        patience_s = _FIRST_PATIENCE_S
        while True:
            begin_s = time.monotonic()
            self._check()
            hangs = not engine_loads and watch.silent_s >= self._options.engine_timeout_s
            if self._engines is not None and hangs:
                self._engines.kill()
                raise StartFailed(f"the engine has hung for {watch.silent_s:.1f} s")
            if time.monotonic() > deadline:
                timeout_s = self._options.start_timeout_s
                raise StartFailed(f"Triton was not ready after {timeout_s:g} s: {last_error}")
            try:
                self._translate_one(patience_s)
            except TimeoutError as error:
                last_error, patience_s = error, min(2 * patience_s, _MOST_PATIENCE_S)
            except (OSError, http.client.HTTPException, KeyError, ValueError) as error:
                last_error = error
            else:
                self._first_bytes = memory_bytes(self.pid)
                return
            watch.wait(_READY_POLL_S, time.monotonic() - begin_s)

    @property
    def grown_bytes(self) -> int:
        """Growth of its memory since it was ready."""
        return memory_bytes(self.pid) - self._first_bytes

    def hangs_in_crash(self) -> bool:
        """Whether it has logged a crash and does not exit, as with a damaged heap."""
        if not self._log.tells_of_crash:
            return False
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(_CRASHING_S)
        # The log line may also come from a request, or from a previous Triton.
        self._log.tells_of_crash = False
        return self.poll() is None and blocks_signals(self.pid, _CRASH_SIGNALS)

    def kill(self) -> None:
        """Kill Triton and its models' processes, and remove their shared memory."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()
        for segment in _SHARED_MEMORY.glob(f"{self._prefix}*"):
            segment.unlink(missing_ok=True)

    def _check(self) -> None:
        """Raise an error if one of the processes has exited, or Triton hangs in a crash."""
        code = self.poll()
        if code is None and self._engines is not None and not self._engines.runs:
            # The engine also exits when Triton unloads its model; Triton's log then says more.
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self.wait(_GIVING_UP_S)
            if code is None:
                raise StartFailed("the engine's process has died; its log above says why")
        if code is not None and code < 0:
            raise TritonCrashed(f"Triton ended by signal {-code}")
        if code is not None:
            raise StartFailed(
                f"Triton exited with code {code}; its log above says why, or dragoman doctor"
            )
        if self.hangs_in_crash():
            raise TritonCrashed("Triton has crashed and hangs")

    def _translate_one(self, timeout_s: float) -> None:
        request = urllib.request.Request(  # noqa: S310
            f"{self._url}/v2/models/{MODEL}/generate",
            data=json.dumps({"text_input": "1"}).encode(),
            headers={"Content-Type": "application/json"},
        )
        # Without the environment's proxy, because this server is on this machine.
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(request, timeout=timeout_s) as answer:
            json.load(answer)["text_output"]


def _command(
    options: ServeOptions,
    repository: Repository | BundleList,
    ports: Ports,
    installation: Installation,
) -> list[str]:
    address = options.address
    # libevhtp, which serves HTTP and metrics, and gRPC write an IPv6 address in their own ways.
    of_http, of_grpc = (f"ipv6:{address}", f"[{address}]") if ":" in address else (address, address)
    command = [
        str(installation.binary),
        f"--backend-directory={installation.backends}",
        "--model-control-mode=explicit",
        *(f"--load-model={name}" for name in repository.models),
        f"--http-address={of_http}",
        f"--grpc-address={of_grpc}",
        f"--metrics-address={of_http}",
        f"--http-port={ports.http}",
        f"--grpc-port={ports.grpc}",
        f"--metrics-port={ports.metrics}",
        f"--exit-timeout-secs={DRAIN_S}",
        "--exit-on-error=true",
        # Closes gRPC connections of clients that have disappeared, after 80 s.
        f"--grpc-keepalive-time={_KEEPALIVE_MS}",
        "--grpc-keepalive-permit-without-calls=1",
        "--grpc-http2-max-pings-without-data=0",
        f"--grpc-http2-min-recv-ping-interval-without-data={_LEAST_PING_MS}",
        f"--log-info={str(options.log_verbose).lower()}",
        f"--http-restricted-api={_CLOSED_ENDPOINTS}:{_CLOSED_HEADER}",
        f"--grpc-restricted-protocol={_CLOSED_ENDPOINTS}:{_CLOSED_HEADER}",
    ]
    if options.grpc_connection_age_s is not None:
        command.append(f"--grpc-max-connection-age={options.grpc_connection_age_s * 1000}")
    if repository.path is not None:
        command.append(f"--model-repository={repository.path.absolute()}")
    if options.tracing is not None:
        command += _trace_flags(options.tracing)
    if options.config is not None:
        command.append(f"--model-config-name={options.config}")
    if installation.embedded:
        # It is built without GPU support.
        command += ["--pinned-memory-pool-byte-size=0", "--allow-gpu-metrics=false"]
    return command


def _trace_flags(tracing: TraceOptions) -> list[str]:
    """Flags for Triton's own spans: of a share of the requests, and of all with a trace context."""
    rate = round(1 / tracing.rate) if tracing.rate else 0
    values = ["mode=opentelemetry", "level=TIMESTAMPS", f"rate={rate}"]
    values.append(f"opentelemetry,url={tracing.traces_url}")
    return [f"--trace-config={value}" for value in values]


def _info(repository: Path) -> list[str]:
    return [f"--model-repository={repository}", f"--load-model={INFO}"]


def _environment(installation: Installation, sockets: str) -> dict[str, str]:
    environment = dict(os.environ)
    # With it, Triton would open another endpoint, on every address and without restrictions.
    environment.pop("AIP_MODE", None)
    # By default, glibc keeps freed blocks of up to 32 MB after such a block was freed. After a few
    # thousand large requests, that is 100 MB more.
    for threshold in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"):
        environment.setdefault(threshold, str(_KEPT_BYTES))
    environment[VARIABLE] = sockets
    inherited = environment.get("LD_LIBRARY_PATH", "").split(":")
    libraries = [*map(str, installation.libraries), *inherited]
    environment["LD_LIBRARY_PATH"] = ":".join(filter(None, libraries))
    # The model's process embeds Python, which ignores PYTHONPATH and finds its virtual
    # environment through the first `python3` on the PATH.
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment.get('PATH', '')}"
    return environment

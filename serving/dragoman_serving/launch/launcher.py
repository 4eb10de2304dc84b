"""Starting and stopping Triton Inference Server.

Takes `tritonserver` from the PATH where there is one (NVIDIA's container), else the real server
that the `nvidia-pytriton` wheel carries. That one is release 24.10, which lacks the security fixes
of later releases (docs/deployment.md), so it listens on loopback only. The endpoints for shared
memory, repository control, traces and logging are closed on every server started here.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import json
import logging
import os
import resource
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dragoman.kernel.errors import DragomanError, UsageError
from dragoman_serving.launch.backends import RelayForm, find_installation, lay_out_backends
from dragoman_serving.launch.child_process import start_child
from dragoman_serving.launch.engine_process import EngineProcess
from dragoman_serving.launch.ports import Ports, choose_ports
from dragoman_serving.launch.processes import alive, blocks_signals, children
from dragoman_serving.launch.repository import MODEL, Repository
from dragoman_serving.launch.server_log import LogPipe
from dragoman_serving.launch.watch import Watch
from dragoman_serving.service.engine_socket import VARIABLE

log = logging.getLogger(__name__)

_CLOSED_ENDPOINTS = "shared-memory,model-repository,trace,logging"
_CLOSED_HEADER = "Dragoman Closed:=\n\n"
"""Name and value of the header that would open them again. No request can carry the name: gRPC ends
a request with a capital, a space or a colon in a header's name, HTTP/1.1 ends a name at its colon.
The value alone closes nothing, since gRPC takes any value. A secret value could be read off the
command line by every user of the machine."""
_STACK_BYTES = 2 << 30
"""Triton 24.10 puts 16 bytes on a thread's stack for each chunk of an HTTP body (CVE-2025-23310),
and some 280 for each level of nested JSON: with 1 GiB, 4 million levels (8 MB) end it.
Threads get stacks of this size; only what is touched takes memory."""
_KEPT_BYTES = 128 << 10
"""Larger blocks that Triton frees go back to the system."""
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108
_LEAST_FILES = 256
"""Triton has about 70 files open at rest; the rest is for connections and for more cores."""
_DRAIN_S = 30
_KEEPALIVE_MS = 60_000
_GIVING_UP_S = 5.0
"""For Triton to end by itself after a model was not loaded."""
_READY_POLL_S = 0.02
_FIRST_PATIENCE_S, _MOST_PATIENCE_S = 1.0, 30.0
"""For the first translation, doubling from try to try: a Triton that crashed may hang silently, and
the first translation of a large model takes long."""
_ANSWERS_SENT_S = 2.0
"""For the last answers to leave Triton after the engine gave them."""
_CRASH_SIGNALS = (signal.SIGSEGV, signal.SIGABRT)
_CRASHING_S = 0.5
"""For Triton to write a stack trace and end, once it has logged one of these signals."""
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class ServeOptions:
    """Where and what to serve. A port of 0 is replaced by a free one."""

    repository: Path
    address: str = "127.0.0.1"
    http_port: int = 8000
    grpc_port: int = 8001
    metrics_port: int = 8002
    expose_unpatched_server: bool = False
    start_timeout_s: float = 120.0
    log_verbose: bool = False
    relay: RelayForm | None = None
    """How requests get to the engine's process; None: compiled, where it is."""
    config: str | None = None
    """Name of the configurations to use, of models that have them under `configs`."""
    more_models: tuple[str, ...] = ()
    """Models of the repository to load beside those that translate."""
    engine_timeout_s: float = 10.0
    """An engine that gives no sign of life for so long is killed."""


class StartFailed(DragomanError):
    """Triton did not come up."""


class TritonCrashed(StartFailed):
    """Triton ended by a signal, or hangs in one, while it started; the engine may be well."""


@dataclass(frozen=True)
class Ended:
    """Why a server serves no more; it is a failure unless another start would serve better."""

    reason: str
    is_failure: bool = True


class TritonServer:
    """A running Triton; stop it, or use it as a context."""

    def __init__(self, options: ServeOptions) -> None:
        """Start Triton and wait until it has really translated something.

        Args:
            options: what to serve, and where.

        Raises:
            UsageError: no such repository, a damaged bundle, a port in use, or an address that
                the embedded server must not listen on.
            StartFailed: Triton exited or did not get ready in time.
        """
        self._options = options
        self._installation = find_installation()
        if self._installation.embedded and not options.expose_unpatched_server:
            _refuse_beyond_loopback(options.address)
        _refuse_few_files()
        self._repository = self._read_repository()
        wanted = Ports(options.http_port, options.grpc_port, options.metrics_port)
        self.ports = choose_ports(options.address, wanted)
        self.engine: EngineProcess | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._prefix = f"dragoman_{os.getpid()}_{secrets.token_hex(4)}_"
        with contextlib.ExitStack() as undo:
            scratch = Path(undo.enter_context(tempfile.TemporaryDirectory()))
            named = self._repository.backends
            self._backends = lay_out_backends(self._installation, named, options.relay, scratch)
            self._log = LogPipe()
            undo.callback(self._log.close)
            self._exit = undo.pop_all()
        try:
            self._launch()
        except BaseException:
            self.stop(drain=False)
            raise

    def __enter__(self) -> TritonServer:
        """The server itself, ready."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    @property
    def pid(self) -> int:
        """Process id of Triton itself, the parent of its models' processes."""
        return self._triton.pid

    @property
    def model_pids(self) -> list[int]:
        """Process ids of what does the models' work: the engine, and models in Python."""
        engine = [] if self.engine is None else [self.engine.pid]
        return engine + children(self.pid)

    @property
    def http_url(self) -> str:
        """Base of the HTTP endpoints."""
        return f"http://{self._client_address}:{self.ports.http}"

    @property
    def grpc_url(self) -> str:
        """Address of the gRPC endpoint, as the client takes it."""
        return f"grpc://{self._client_address}:{self.ports.grpc}"

    def say(self, message: str) -> None:
        """Write a line to stderr, behind what Triton has logged; it never blocks."""
        self._log.say(message)

    def wait(self, follow_bundle: bool = False) -> Ended:
        """Wait until the server or one of its models ends by itself, or the engine hangs.

        Triton goes on, and says that it is ready, when the engine or a Python model has ended.

        Args:
            follow_bundle: until the bundle can be run in another way than at the start, too.
        """
        models = children(self.pid)
        with contextlib.closing(self._watch()) as watch:
            while True:
                watch.wait()
                if (code := self._triton.poll()) is not None:
                    return Ended(f"Triton ended by itself with code {code}")
                if self._log.tells_of_crash and self._hangs_in_crash():
                    return Ended("Triton has crashed and hangs")
                if self.engine is not None and not self.engine.runs:
                    return Ended("the engine's process has died; the log above says why")
                if self.engine is not None and self._hangs(watch):
                    self.engine.kill()
                    return Ended(f"the engine has hung for {watch.silent_s:g} s")
                if not all(map(alive, models)):
                    return Ended("a model's process has died; the log above says why")
                if follow_bundle and self._repository.layout_has_changed():
                    return Ended("the bundle can be run in another way now", is_failure=False)

    def start_again(self, anew: bool = False) -> None:
        """Start what has ended again, on the same ports.

        Args:
            anew: let requests in flight finish, and start the engine again although it runs, from
                what the repository holds now. Otherwise it stays loaded while it runs.

        Raises:
            UsageError: see `TritonServer`.
            StartFailed: Triton exited or did not get ready in time.
        """
        self.end_triton(drain=anew)
        if anew:
            self._repository = self._read_repository()
        if anew or (self.engine is not None and not self.engine.runs):
            self._end_engine()
        choose_ports(self._options.address, self.ports)
        self._launch()

    def stop(self, drain: bool = True) -> None:
        """Stop every process and remove what they leave.

        Args:
            drain: let requests in flight finish first.
        """
        with _signals_ignored():
            self.end_triton(drain)
            self._end_engine()
            self._exit.close()

    def end_triton(self, drain: bool = False) -> None:
        """End Triton and its models' processes; the engine stays.

        Args:
            drain: let requests in flight finish first.
        """
        process = self._process
        if process is None:
            return
        if drain and process.poll() is None:
            process.terminate()
            self._wait_until_drained()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # and whatever model processes are left
        process.wait()
        self._process = None
        for segment in _SHARED_MEMORY.glob(f"{self._prefix}*"):
            segment.unlink(missing_ok=True)

    def _launch(self) -> None:
        try:
            loads = self.engine is None
            if loads and self._repository.layout is not None:
                self.engine = EngineProcess()
            self._log.tells_of_crash = False
            self._process = self._start()
            self._wait_until_ready(loads)
        except TritonCrashed:
            self.end_triton(drain=False)
            raise
        except (DragomanError, OSError):
            # Nothing of it stays, so that the next start does not depend on it.
            self.end_triton(drain=False)
            self._end_engine()
            raise

    def _read_repository(self) -> Repository:
        options = self._options
        return Repository(options.repository, options.more_models, options.config)

    @property
    def _triton(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def _watch(self) -> Watch:
        if self.engine is None:
            return Watch([self.pid], None)
        return Watch([self.pid, self.engine.pid], self.engine.heartbeat)

    def _hangs(self, watch: Watch) -> bool:
        return watch.silent_s >= self._options.engine_timeout_s

    def _hangs_in_crash(self) -> bool:
        """Whether Triton does not come to its end after a crash, as with a damaged heap."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._triton.wait(_CRASHING_S)
        # A line in a log may also come from a request, or from a Triton before this one.
        self._log.tells_of_crash = False
        return self._triton.poll() is None and blocks_signals(self.pid, _CRASH_SIGNALS)

    def _wait_until_drained(self) -> None:
        """Wait until Triton has ended, or has nothing left to answer.

        Triton itself also waits for idle HTTP connections and for abandoned streams.
        """
        deadline = time.monotonic() + _DRAIN_S + 10
        with contextlib.closing(self._watch()) as watch:
            while self._triton.poll() is None:
                if self.engine is not None and (not self.engine.runs or self._hangs(watch)):
                    return  # nothing can be answered any more
                watch.wait()
                # The engine does not know what further models have in flight.
                if watch.idle_s >= _ANSWERS_SENT_S and not self._options.more_models:
                    return
                if time.monotonic() > deadline:
                    self.say("Triton does not stop by itself; killing it")
                    return

    def _end_engine(self) -> None:
        if self.engine is not None:
            self.engine.stop()
            self.engine = None

    @property
    def _client_address(self) -> str:
        address = self._options.address
        any_address = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
        address = any_address.get(address, address)
        return f"[{address}]" if ":" in address else address

    def _start(self) -> subprocess.Popen[bytes]:
        options, installation = self._options, self._installation
        python = f"python,shm-region-prefix-name={self._prefix}"
        arguments = [
            str(installation.binary),
            f"--model-repository={options.repository.absolute()}",
            "--model-control-mode=explicit",
            *(f"--load-model={name}" for name in self._repository.models),
            f"--http-address={options.address}",
            f"--grpc-address={options.address}",
            f"--metrics-address={options.address}",
            f"--http-port={self.ports.http}",
            f"--grpc-port={self.ports.grpc}",
            f"--metrics-port={self.ports.metrics}",
            f"--exit-timeout-secs={_DRAIN_S}",
            "--exit-on-error=true",
            # Ends gRPC connections whose client has gone without a word, after 80 s.
            f"--grpc-keepalive-time={_KEEPALIVE_MS}",
            "--grpc-keepalive-permit-without-calls=1",
            "--grpc-http2-max-pings-without-data=0",
            f"--log-info={str(options.log_verbose).lower()}",
            f"--backend-config={python}",
            f"--http-restricted-api={_CLOSED_ENDPOINTS}:{_CLOSED_HEADER}",
            f"--grpc-restricted-protocol={_CLOSED_ENDPOINTS}:{_CLOSED_HEADER}",
        ]
        if options.config is not None:
            arguments.append(f"--model-config-name={options.config}")
        if installation.embedded:
            # It has no part for GPUs.
            arguments += ["--pinned-memory-pool-byte-size=0", "--allow-gpu-metrics=false"]
        arguments.append(f"--backend-directory={self._backends}")
        environment = dict(os.environ)
        # With it Triton would open a further endpoint, on every address and with nothing closed.
        environment.pop("AIP_MODE", None)
        # By default glibc keeps freed blocks of up to 32 MB once such a block was freed. After some
        # thousand large requests that is 100 MB more.
        for threshold in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"):
            environment.setdefault(threshold, str(_KEPT_BYTES))
        if self.engine is not None:
            environment[VARIABLE] = str(self.engine.path)
        inherited = environment.get("LD_LIBRARY_PATH", "").split(":")
        libraries = [*map(str, installation.libraries), *inherited]
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, libraries))
        # The model's process embeds Python, which ignores PYTHONPATH and finds its virtual
        # environment by the first `python3` on the PATH.
        environment["PATH"] = f"{Path(sys.executable).parent}:{environment.get('PATH', '')}"
        # It writes its log to stderr and some lines to stdout, which is for results.
        return start_child(
            arguments,
            environment=environment,
            stack_bytes=_STACK_BYTES,
            output=self._log.descriptor,
        )

    def _wait_until_ready(self, engine_loads: bool) -> None:
        with contextlib.closing(self._watch()) as watch:
            self._try_until_ready(watch, engine_loads)

    def _try_until_ready(self, watch: Watch, engine_loads: bool) -> None:
        """Translate until it works.

        Args:
            watch: over the processes.
            engine_loads: whether the engine is loading, and may be silent for long.
        """
        deadline = time.monotonic() + self._options.start_timeout_s
        last_error: Exception | None = None
        patience_s = _FIRST_PATIENCE_S
        silent_s = 0.0
        while True:
            begin_s = time.monotonic()
            code = self._triton.poll()
            if code is None and self.engine is not None and not self.engine.runs:
                # It ends too when Triton lets go of its model, which then says more than we could.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = self._triton.wait(_GIVING_UP_S)
                if code is None:
                    raise StartFailed("the engine's process has died; its log above says why")
            if code is not None and code < 0:
                raise TritonCrashed(f"Triton ended by signal {-code}")
            if code is not None:
                raise StartFailed(
                    f"Triton exited with code {code}; its log above says why, or dragoman doctor"
                )
            if self._log.tells_of_crash and self._hangs_in_crash():
                raise TritonCrashed("Triton has crashed and hangs")
            if self.engine is not None and silent_s >= self._options.engine_timeout_s:
                self.engine.kill()
                raise StartFailed(f"the engine has hung for {silent_s:.1f} s")
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
                return
            watch.wait(_READY_POLL_S)
            is_silent = watch.silent_s > 0 and not engine_loads
            silent_s = silent_s + time.monotonic() - begin_s if is_silent else 0.0

    def _translate_one(self, timeout_s: float) -> None:
        request = urllib.request.Request(  # noqa: S310
            f"{self.http_url}/v2/models/{MODEL}/generate",
            data=json.dumps({"text_input": "1"}).encode(),
            headers={"Content-Type": "application/json"},
        )
        # Past any proxy of the environment: this server is on this machine.
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(request, timeout=timeout_s) as answer:
            json.load(answer)["text_output"]


class Stopped(KeyboardInterrupt):
    """A signal asked this program to stop; what does not expect it ends as by Ctrl-C."""


def stop_on_signals() -> None:
    """From now on, raise `Stopped` in the main thread on SIGINT or SIGTERM, once."""

    def stop(number: int, frame: object) -> None:
        for one in _STOP_SIGNALS:
            signal.signal(one, signal.SIG_IGN)
        raise Stopped

    for one in _STOP_SIGNALS:
        signal.signal(one, stop)


@contextlib.contextmanager
def _signals_ignored() -> Iterator[None]:
    """Keep a signal from breaking off the clean-up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [signal.signal(one, signal.SIG_IGN) for one in _STOP_SIGNALS]
    try:
        yield
    finally:
        for one, handler in zip(_STOP_SIGNALS, before, strict=True):
            signal.signal(one, handler)


def _refuse_few_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < _LEAST_FILES:
        raise UsageError(
            f"the hard limit of open files is {most}, and the server needs {_LEAST_FILES}: "
            "raise it (ulimit -Hn, LimitNOFILE= of systemd, docker run --ulimit nofile)"
        )


def _refuse_beyond_loopback(address: str) -> None:
    try:
        loopback = ipaddress.ip_address(address).is_loopback
    except ValueError:
        raise UsageError(f"--address {address!r}: give an IP address") from None
    if not loopback:
        raise UsageError(
            f"--address {address}: the embedded Triton 24.10 has known vulnerabilities "
            "(docs/deployment.md) and listens on loopback only; put the proxy in front of it, "
            "or accept the risk with --expose-unpatched-server"
        )

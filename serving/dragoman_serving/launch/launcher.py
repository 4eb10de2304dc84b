"""A server: starts, watches and stops the engine processes, and Triton unless it is left out.

It uses `tritonserver` from the PATH if available (NVIDIA's container), else the server in the
`nvidia-pytriton` wheel. That server is release 24.10, which lacks the security fixes of later
releases (docs/deployment.md), so it listens on loopback only. The endpoints for shared memory,
repository control, traces and logging are closed on every server started here.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dragoman_options.table import INFO

from dragoman.kernel.errors import DragomanError, UsageError
from dragoman_serving.launch.backends import find_installation, lay_out_backends
from dragoman_serving.launch.engine_group import EngineGroup
from dragoman_serving.launch.engine_process import EngineProcess
from dragoman_serving.launch.engine_shares import default_engines, engine_shares
from dragoman_serving.launch.ports import Ports, choose_ports
from dragoman_serving.launch.processes import alive, children
from dragoman_serving.launch.pulse import Pulse
from dragoman_serving.launch.repository import BundleList, Repository, lay_out
from dragoman_serving.launch.serve_options import (
    ServeOptions,
    refuse_beyond_loopback,
    refuse_few_files,
)
from dragoman_serving.launch.server_log import LogPipe
from dragoman_serving.launch.stop_signals import at_once, uninterrupted
from dragoman_serving.launch.triton_process import DRAIN_S, TritonCrashed, TritonProcess
from dragoman_serving.launch.watch import Watch

_ANSWERS_SENT_S = 2.0
"""Time for Triton to send the engine's last answers."""


@dataclass(frozen=True)
class Ended:
    """The reason why a server ended; not a failure if a restart is only to use a new layout."""

    reason: str
    is_failure: bool = True


class TritonServer(contextlib.AbstractContextManager["TritonServer"]):
    """A running server; stop it, or use it as a context manager."""

    def __init__(self, options: ServeOptions) -> None:
        """Start it, and wait until it can translate.

        Args:
            options: what to serve, and where.

        Raises:
            UsageError: no such repository, a damaged bundle, a port in use, or an address that
                the embedded server must not listen on.
            StartFailed: a process exited, or was not ready in time.
        """
        self._options = options
        self._installation = find_installation() if options.triton else None
        is_embedded = self._installation is not None and self._installation.embedded
        if is_embedded and not options.expose_unpatched_server:
            refuse_beyond_loopback(options.address)
        refuse_few_files()
        self._repository = self._read_repository()
        number = options.engines or default_engines(self._repository)
        self._shares = engine_shares(self._repository, number)
        self.ports = Ports(0, 0, 0)
        if options.triton:
            requested = Ports(options.http_port, options.grpc_port, options.metrics_port)
            self.ports = choose_ports(options.address, requested)
        self._process: TritonProcess | None = None
        with contextlib.ExitStack() as undo:
            try:
                scratch = Path(undo.enter_context(tempfile.TemporaryDirectory()))
            except OSError as error:
                reason = "no folder for temporary files can be written"
                raise UsageError(f"{reason}: set TMPDIR to one that can") from error
            if self._installation is not None:
                named = self._repository.backends
                backends = lay_out_backends(self._installation, named, scratch)
                self._installation = replace(self._installation, backends=backends)
            self._more_models = scratch / "models"
            lay_out(self._more_models, self._own_models)
            self._log = LogPipe()
            undo.callback(self._log.close)
            group = EngineGroup(number, options, self.ports.metrics, self.say)
            self._engines = undo.enter_context(group)
            self._exit = undo.pop_all()
        try:
            self._launch()
        except BaseException:
            self.stop(drain=False)
            raise

    def __exit__(self, *_: object) -> None:
        """Stop the server."""
        self.stop()

    @property
    def pid(self) -> int:
        """Process id of Triton, the parent of its models' processes."""
        return self._triton.pid

    @property
    def model_pids(self) -> list[int]:
        """Process ids of the engine processes and of models in Python."""
        return [*self._engine_pids, *children(self.pid)]

    @property
    def http_url(self) -> str:
        """Base URL of the HTTP endpoints."""
        return f"http://{self._options.client_address}:{self.ports.http}"

    @property
    def grpc_url(self) -> str:
        """URL of the gRPC endpoint, for the client."""
        return f"grpc://{self._options.client_address}:{self.ports.grpc}"

    @property
    def engine_url(self) -> str | None:
        """URL of the engine's sockets, for clients on this machine; None: there is no engine."""
        return None if self._repository.layout is None else f"unix:{self._engines.paths}"

    @property
    def engine(self) -> EngineProcess | None:
        """The first engine process; None: there is no engine."""
        return next(iter(self._engines.processes), None)

    def say(self, message: str) -> None:
        """Write a line to stderr, after Triton's log lines; it never blocks."""
        self._log.say(message)

    def wait(self, follow_bundle: bool = False, look: Callable[[], None] | None = None) -> Ended:
        """Wait until a process of the server exits, or Triton or the engine hangs.

        Triton keeps running, and reports that it is ready, when the engine or a Python model has
        exited. One of several engine processes is restarted here, while others run.

        Args:
            follow_bundle: also return when the bundle can run with another layout than at startup.
            look: called about every half second, to watch another process.
        """
        with contextlib.ExitStack() as closing:
            watched, watch = self._engine_pids, self._watch()
            closing.callback(lambda: watch.close())
            end_of_triton: Callable[[Watch], str | None] = lambda _: None  # noqa: E731
            if self._process is not None:
                pulse = closing.enter_context(contextlib.closing(self._pulse()))
                end_of_triton = partial(self._end_of_triton, pulse, children(self.pid))
            while True:
                watch.wait()
                if look is not None:
                    look()
                if reason := end_of_triton(watch) or self._engines.look():
                    return Ended(reason)
                if self._engine_pids != watched:
                    watch.close()
                    watched, watch = self._engine_pids, self._watch(anew=False)
                if follow_bundle and self._repository.layout_has_changed():
                    return Ended("the bundle can be run in another way now", is_failure=False)

    def _end_of_triton(self, pulse: Pulse, models: Sequence[int], watch: Watch) -> str | None:
        """Why Triton must be restarted; None: it need not."""
        pulse.look()
        if (code := self._triton.poll()) is not None:
            return f"Triton ended by itself with code {code}"
        if self._triton.hangs_in_crash():
            return "Triton has crashed and hangs"
        if pulse.silent_s >= self._options.engine_timeout_s:
            return f"Triton has hung for {pulse.silent_s:.1f} s"
        grown_bytes = self._triton.grown_bytes
        limit_bytes = self._options.triton_growth_bytes
        if grown_bytes > (limit_bytes if watch.idle_s > 0 else 2 * limit_bytes):
            return f"Triton took {grown_bytes >> 20} MiB more than at its start"
        if not all(map(alive, models)):
            return "a model's process has died; the log above says why"
        return None

    def start_again(self, anew: bool = False) -> None:
        """Restart Triton, and the engine if it has exited, on the same ports.

        Args:
            anew: let requests in flight finish, and also restart running engines with the current
                contents of the repository.

        Raises:
            UsageError: see `TritonServer`.
            StartFailed: Triton exited, or was not ready in time.
        """
        self.end_triton(drain=anew)
        if anew:
            self._repository = self._read_repository()
            self._shares = engine_shares(self._repository, len(self._shares))
        if anew or not self._engines.runs:
            self._engines.stop()
        if self._options.triton:
            choose_ports(self._options.address, self.ports)
        self._launch()

    def stop(self, drain: bool = True) -> None:
        """Stop every process, and remove their files.

        Args:
            drain: let requests in flight finish first.
        """
        with uninterrupted():
            self.end_triton(drain)
            self._engines.stop()
            self._exit.close()

    def end_triton(self, drain: bool = False) -> None:
        """Stop Triton and its models' processes; the engine keeps running.

        Args:
            drain: let requests in flight finish first.
        """
        if self._process is None:
            return
        if drain and self._process.poll() is None:
            self._process.terminate()
            self._wait_until_drained()
        self._process.kill()
        self._process = None

    def _launch(self) -> None:
        try:
            repository = self._repository
            has_engine = repository.layout is not None
            loads = has_engine and not self._engines.processes
            if loads:
                self._engines.start(self._shares)
            if loads and (self._installation is None or len(self._shares) > 1):
                self._engines.wait_until_loaded()
            if self._installation is None:
                if not has_engine:
                    message = "--no-triton: the model translate has a backend of Triton's own"
                    raise UsageError(message)
                return
            self._process = TritonProcess(
                self._options,
                repository,
                self._more_models,
                self.ports,
                self._installation,
                self._engines if has_engine else None,
                self._log,
            )
            with contextlib.closing(self._watch()) as watch:
                self._triton.wait_until_ready(watch, loads)
        except TritonCrashed:
            self.end_triton(drain=False)
            raise
        except (DragomanError, OSError):
            # Stop everything, so that the next start does not depend on this one.
            self.end_triton(drain=False)
            self._engines.stop()
            raise

    @property
    def _own_models(self) -> list[str]:
        """Models without a repository on disk."""
        return [INFO, *(self._repository.models if self._repository.path is None else ())]

    def _read_repository(self) -> Repository | BundleList:
        options = self._options
        if options.repository is None:
            return BundleList(options.to_serve, options.parameters)
        return Repository(
            path=options.repository,
            more_models=options.more_models,
            config=options.config,
            parameters=options.parameters,
            to_serve=options.to_serve,
        )

    @property
    def _triton(self) -> TritonProcess:
        assert self._process is not None
        return self._process

    def _watch(self, anew: bool = True) -> Watch:
        pids = [] if self._process is None else [self.pid]
        heartbeats = [process.heartbeat for process in self._engines.processes]
        return Watch([*pids, *self._engine_pids], heartbeats, anew)

    def _pulse(self) -> Pulse:
        return Pulse(self.pid, self._options.client_address.strip("[]"), self.ports.http)

    @property
    def _engine_pids(self) -> list[int]:
        return [process.pid for process in self._engines.processes]

    def _hangs(self, watch: Watch) -> bool:
        return watch.silent_s >= self._options.engine_timeout_s

    def _wait_until_drained(self) -> None:
        """Wait until Triton has exited, or has no requests left.

        Triton itself would also wait for idle HTTP connections and abandoned streams.
        """
        deadline = time.monotonic() + DRAIN_S + 10
        with contextlib.closing(self._watch()) as watch:
            while self._triton.poll() is None:
                if self.engine is not None and (not self._engines.runs or self._hangs(watch)):
                    return  # no request can be answered any more
                watch.wait()
                if at_once.is_set():
                    return
                # The engine does not know the requests of other models.
                if watch.idle_s >= _ANSWERS_SENT_S and not self._options.more_models:
                    return
                if time.monotonic() > deadline:
                    self.say("Triton does not stop by itself; killing it")
                    return

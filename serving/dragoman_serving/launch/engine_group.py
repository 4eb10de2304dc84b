"""The engine processes of a server. Each has a socket of its own, and is restarted on its own."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dragoman_options.client_frames import pack_hello, unpack_refused
from dragoman_options.frames import FrameSplitter, Hello, Kind, join_paths
from dragoman_options.table import TRANSLATE

from dragoman_serving.launch.backoff import Backoff
from dragoman_serving.launch.engine_process import EngineProcess, StartFailed
from dragoman_serving.launch.engine_shares import Share
from dragoman_serving.launch.serve_options import ServeOptions
from dragoman_serving.launch.stop_signals import at_once
from dragoman_serving.service.engine_socket import EngineSocket

_LOADED_POLL_S = 0.1
_READ_BYTES = 1 << 16


class EngineGroup(contextlib.AbstractContextManager["EngineGroup"]):
    """The engine processes of a server, and their sockets, which stay when a process ends.

    The server can answer as long as one process runs. If several do, one that ends or hangs is
    restarted alone; the doors meanwhile use the others.
    """

    def __init__(
        self, number: int, options: ServeOptions, metrics_port: int, say: Callable[[str], None]
    ) -> None:
        """Make the sockets; no process is started yet.

        Args:
            number: number of processes.
            options: options of the server.
            metrics_port: see `EngineProcess`.
            say: writes a line to the log.

        Raises:
            DragomanError: a socket cannot be made.
        """
        self._options, self._metrics_port, self._say = options, metrics_port, say
        with contextlib.ExitStack() as undo:
            self._members = [
                _Member(f" {index + 1}" if number > 1 else "", undo.enter_context(EngineSocket()))
                for index in range(number)
            ]
            self._sockets = undo.pop_all()

    def __exit__(self, *_: object) -> None:
        """Remove the sockets; the processes must have been stopped."""
        self._sockets.close()

    @property
    def paths(self) -> str:
        """The paths of the sockets, as one text."""
        return join_paths(member.door.path for member in self._members)

    @property
    def processes(self) -> list[EngineProcess]:
        """The processes that were started and not stopped; some may have ended."""
        return [member.process for member in self._members if member.process is not None]

    @property
    def runs(self) -> bool:
        """Whether a process is running."""
        return any(process.runs for process in self.processes)

    def start(self, shares: Sequence[Share]) -> None:
        """Start all processes; bundles are loaded when the first client connects.

        Args:
            shares: what each process gets.
        """
        for member, share in zip(self._members, shares, strict=True):
            member.share = share
            self._start(member)

    def wait_until_loaded(self) -> None:
        """Wait, as a client, until all processes have loaded their first bundle.

        Raises:
            StartFailed: one has ended, cannot load the bundle, or was not ready in time.
        """
        deadline_s = time.monotonic() + self._options.start_timeout_s
        for member in self._members:
            member.watch_loading()
        for member in self._members:
            while not member.has_loaded(_LOADED_POLL_S):
                state = "is not ready" if member.runs else "has died"
                if not member.runs or time.monotonic() > deadline_s:
                    raise StartFailed(
                        f"the engine's process{member.name} {state}; its log above says why"
                    )

    def look(self) -> str | None:
        """Restart a process that ended or hangs, if others run; call this after each wait.

        Returns:
            Why the server must be restarted, or ended if `restart_engines` is off; None: it goes
            on.
        """
        for member in self._members:
            reason = self._fault(member)
            if reason is not None:
                others = (other.runs for other in self._members if other is not member)
                if not self._options.restart_engines or not any(others):
                    return reason
                self._restart(member, reason)
            elif member.process is None and time.monotonic() >= member.start_at_s:
                self._start_again(member)
        return None

    def kill(self) -> None:
        """Kill all processes, even if they hang."""
        for process in self.processes:
            process.kill()

    def stop(self) -> None:
        """Stop all processes; requests in flight finish first, unless all must end at once."""
        if at_once.is_set():
            self.kill()
        for process in self.processes:
            process.terminate()
        for member in self._members:
            member.stop()

    def _start(self, member: _Member) -> None:
        assert member.share is not None
        member.began_s = time.monotonic()
        member.process = EngineProcess(
            member.door,
            member.share.to_serve,
            metrics_port=self._metrics_port,
            parameters=member.share.parameters,
            tracing=self._options.tracing,
            name=member.name.strip(),
        )

    def _fault(self, member: _Member) -> str | None:
        """Why a process must be restarted; one that hangs is killed."""
        if member.process is None:
            return None
        if not member.process.runs:
            return f"the engine's process{member.name} has died; the log above says why"
        options = self._options
        limit_s = options.start_timeout_s if member.is_loading else options.engine_timeout_s
        if member.process.heartbeat.silent_s >= limit_s:
            member.process.kill()
            return f"the engine{member.name} has hung for {limit_s:g} s"
        try:
            if member.is_loading and member.has_loaded():
                self._say(f"the engine's process{member.name} is ready again")
        except StartFailed as error:
            return f"the engine's process{member.name} cannot be used: {error}"
        return None

    def _restart(self, member: _Member, reason: str) -> None:
        """Stop a process, and start it again, at once or after a delay."""
        ran_s = 0.0 if member.is_loading else time.monotonic() - member.began_s
        member.stop()
        delay_s = member.backoff.delay_s(ran_s)
        member.start_at_s = time.monotonic() + delay_s
        self._say(f"{reason}; starting it again" + (f" in {delay_s:g} s" if delay_s else ""))
        if not delay_s:
            self._start_again(member)

    def _start_again(self, member: _Member) -> None:
        try:
            self._start(member)
            member.watch_loading()
        except OSError as error:  # for example, no memory
            member.stop()
            delay_s = member.backoff.delay_s(0.0)
            member.start_at_s = time.monotonic() + delay_s
            self._say(f"the engine's process{member.name} did not start: {error}")


class _Member:
    """The place of a process in the group.

    Attributes:
        name: its number after a space, for messages; empty if it is the only one.
        door: its socket.
        process: the process; None: it is not started.
        share: what the process gets.
        began_s: when it was started.
        start_at_s: when it must be started, if it is not.
        backoff: delay of the next start.
    """

    def __init__(self, name: str, door: EngineSocket) -> None:
        self.name, self.door = name, door
        self.process: EngineProcess | None = None
        self.share: Share | None = None
        self.began_s = self.start_at_s = 0.0
        self.backoff = Backoff()
        self._loading: _Loading | None = None

    @property
    def runs(self) -> bool:
        """Whether the process is running."""
        return self.process is not None and self.process.runs

    @property
    def is_loading(self) -> bool:
        """Whether the process has not yet loaded its first bundle, as far as it was watched."""
        return self._loading is not None

    def watch_loading(self) -> None:
        """Connect to the process, so that it loads its first bundle."""
        self._loading = _Loading(self.door.path)

    def has_loaded(self, wait_s: float = 0.0) -> bool:
        """Whether the process has loaded its first bundle."""
        if self._loading is not None and self._loading.is_over(wait_s):
            self._end_loading()
        return self._loading is None

    def stop(self) -> None:
        """Stop the process; requests in flight finish first."""
        self._end_loading()
        if self.process is not None:
            self.process.stop()
            self.process = None

    def _end_loading(self) -> None:
        if self._loading is not None:
            self._loading.close()
            self._loading = None


class _Loading:
    """A client that waits until an engine process has loaded its first bundle."""

    def __init__(self, path: Path) -> None:
        self._splitter = FrameSplitter()
        with contextlib.ExitStack() as undo:
            self._client = undo.enter_context(socket.socket(socket.AF_UNIX))
            self._client.connect(str(path))
            self._client.sendall(pack_hello(Hello(TRANSLATE)))
            undo.pop_all()

    def is_over(self, wait_s: float) -> bool:
        """Whether the process has loaded the bundle; see `_Member.has_loaded`."""
        self._client.settimeout(wait_s)
        with contextlib.suppress(OSError):  # nothing has come, or the process has ended
            for kind, body in self._splitter.feed(self._client.recv(_READ_BYTES)):
                if kind is Kind.READY:
                    return True
                if kind is Kind.REFUSED:
                    raise StartFailed(unpack_refused(body))
        return False

    def close(self) -> None:
        """Hang up."""
        self._client.close()

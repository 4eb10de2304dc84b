"""Starts, watches and stops the gateway process, which runs next to Triton."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dragoman.kernel.errors import DragomanError, UsageError
from dragoman_serving.launch.backoff import Backoff
from dragoman_serving.launch.child_process import start_child
from dragoman_serving.launch.ports import PortInUse, listening_socket
from dragoman_serving.launch.stop_signals import at_once, uninterrupted

DRAIN_S = 35.0
"""Timeout for the gateway to exit after it stops accepting requests: longer than its own limit for
requests in flight."""
_DRAIN_POLL_S = 0.05
_LOOK_S = 0.5
"""Most silence that one check adds, so that a pause of the launcher itself does not count."""
_READ_BYTES = 1 << 16


class GatewayEnded(DragomanError):
    """The gateway did not start, or it exited."""


@dataclass(frozen=True)
class GatewayOptions:
    """Options of the gateway process.

    Attributes:
        address: IP address to listen on.
        port: port to listen on; 0: any free port.
        environment: its settings, as environment variables.
        restart: whether to restart it when it exits or hangs.
        timeout_s: timeout of its heartbeats; without one for longer, its event loop hangs.
        start_timeout_s: timeout of its start.
        stop_delay_s: time for which it still accepts requests when it is stopped.
    """

    address: str = "127.0.0.1"
    port: int = 5000
    environment: Mapping[str, str] = field(default_factory=dict)
    restart: bool = True
    timeout_s: float = 10.0
    start_timeout_s: float = 60.0
    stop_delay_s: float = 0.0

    def refuse_port_in_use(self) -> None:
        """Raise an error if the gateway cannot listen; see `listen`."""
        self.listen().close()

    def listen(self) -> socket.socket:
        """Returns a socket that listens on the port.

        Raises:
            UsageError: the address or the port is not usable.
            PortInUse: the port is in use.
        """
        try:
            return listening_socket(self.address, self.port)
        except PortInUse as error:
            raise PortInUse(
                f"--gateway-port {self.port} is in use on {self.address}: name another, or 0 for a "
                "free one, or --no-gateway"
            ) from error
        except UsageError as error:
            raise UsageError(f"--gateway-address, --gateway-port: {error}") from error

    def url(self, port: int) -> str:
        """Returns the URL of the gateway for users of this machine."""
        if self.address in ("127.0.0.1", "::1", "0.0.0.0", "::"):  # noqa: S104
            return f"http://localhost:{port}"
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{port}"


class GatewayProcess(contextlib.AbstractContextManager["GatewayProcess"]):
    """A gateway that is restarted when it exits; stop it, or use it as a context manager.

    The listening socket belongs to this process: clients that connect while the gateway hangs or
    starts again wait in its queue, and the next gateway answers them.
    """

    def __init__(
        self, options: GatewayOptions, environment: Mapping[str, str], say: Callable[[str], None]
    ) -> None:
        """Start the gateway, and wait until it is ready.

        Args:
            options: options of the process.
            environment: environment variables with the server's addresses.
            say: writes a line to the log.

        Raises:
            UsageError: the address or the port is not usable, or the port is in use.
            GatewayEnded: the gateway did not start.
        """
        self._options, self._say = options, say
        self._listening = options.listen()
        port = self._listening.getsockname()[1]
        self.url = options.url(port)
        self._environment = {
            **os.environ,
            **options.environment,
            **environment,
            "DRAGOMAN_GATEWAY_ADDRESS": options.address,
            "DRAGOMAN_GATEWAY_PORT": str(port),
        }
        self._backoff = Backoff()
        self._process: subprocess.Popen[bytes] | None = None
        self._heartbeat = -1
        self._start_at_s = self._began_s = self._looked_s = self._silent_s = 0.0
        self._is_ready = False
        try:
            self._start()
            self._wait_until_ready()
        except BaseException:
            self.stop(drain=False)
            raise

    def __exit__(self, *_: object) -> None:
        """Stop the gateway."""
        self.stop()

    @property
    def pid(self) -> int | None:
        """The process id; None while it waits for a restart."""
        return None if self._process is None else self._process.pid

    def look(self) -> None:
        """Restart the gateway if it exited or hangs; call this about every half second.

        Raises:
            GatewayEnded: it exited or hangs, and `restart` is off.
        """
        now_s = time.monotonic()
        if self._process is None:
            if now_s >= self._start_at_s:
                self._start()
            return
        self._silent_s += min(now_s - self._looked_s, _LOOK_S)
        self._looked_s = now_s
        if self._hears():
            self._silent_s, self._is_ready = 0.0, True
        options = self._options
        patience_s = options.timeout_s if self._is_ready else options.start_timeout_s
        if self._process.poll() is not None:
            self._begin_again(f"the gateway ended by itself with code {self._process.returncode}")
        elif self._silent_s >= patience_s:
            self._begin_again(f"the gateway has hung for {self._silent_s:.1f} s")

    def stop(self, drain: bool = True) -> None:
        """Stop the gateway.

        Args:
            drain: let requests in flight finish first.
        """
        self._listening.close()  # the gateway has it too, and closes it when it stops accepting
        self._end(drain)

    def _end(self, drain: bool) -> None:
        if self._process is None:
            return
        with uninterrupted():
            if drain:
                self._process.terminate()
                end_s = time.monotonic() + self._options.stop_delay_s + DRAIN_S
                while self._process.poll() is None and time.monotonic() < end_s:
                    if at_once.wait(_DRAIN_POLL_S):
                        break
            self._process.kill()
            self._process.wait()
            os.close(self._heartbeat)
            self._process = None

    def _start(self) -> None:
        self._heartbeat, theirs = os.pipe()
        os.set_blocking(self._heartbeat, False)
        try:
            # -P: do not import a package of that name from the working folder.
            listening = self._listening.fileno()
            command = [sys.executable, "-P", "-m", "dragoman", "gateway"]
            self._process = start_child(
                [*command, "--socket", str(listening), "--heartbeat", str(theirs)],
                environment=self._environment,
                descriptors=[theirs, listening],
            )
        except BaseException:
            os.close(self._heartbeat)
            raise
        finally:
            os.close(theirs)
        self._began_s = self._looked_s = time.monotonic()
        self._silent_s, self._is_ready = 0.0, False

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        select.select([self._heartbeat], [], [], self._options.start_timeout_s)
        if self._hears():
            self._is_ready = True
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(1)
            raise GatewayEnded(
                f"the gateway ended with code {code}; its log above says why. --no-gateway serves "
                "without it"
            )
        timeout_s = self._options.start_timeout_s
        raise GatewayEnded(f"the gateway was not ready after {timeout_s:g} s")

    def _hears(self) -> bool:
        """Whether heartbeats have come since the last call."""
        try:
            return bool(os.read(self._heartbeat, _READ_BYTES))
        except BlockingIOError:
            return False

    def _begin_again(self, reason: str) -> None:
        ran_s = time.monotonic() - self._began_s if self._is_ready else 0.0
        self._end(drain=False)
        if not self._options.restart:
            raise GatewayEnded(reason)
        delay_s = self._backoff.delay_s(ran_s)
        self._start_at_s = time.monotonic() + delay_s
        self._say(f"{reason}; starting it again" + (f" in {delay_s:g} s" if delay_s else ""))

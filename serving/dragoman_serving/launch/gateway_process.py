"""The gateway's process beside Triton: started, looked after and stopped."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Self

from dragoman.kernel.errors import DragomanError, UsageError
from dragoman_serving.launch.backoff import Backoff
from dragoman_serving.launch.child_process import start_child
from dragoman_serving.launch.ports import PortInUse, free_ports, port_is_free
from dragoman_serving.launch.stop_signals import signals_ignored

DRAIN_S = 35.0
"""The longest that the gateway may take to end once it takes no more requests: its own bound for
those in flight, and more."""
_LOOK_S = 0.5
"""Silence that one look adds at most, so that a launcher that was stopped has seen little of it."""
_READ_BYTES = 1 << 16


class GatewayEnded(DragomanError):
    """The gateway did not start, or it ended by itself."""


@dataclass(frozen=True)
class GatewayOptions:
    """What the gateway is started with.

    Attributes:
        address: IP address to listen on.
        port: 0: a free one.
        environment: its settings, as variables.
        restart: whether to start it again when it ends by itself or hangs.
        timeout_s: an event loop that gives no sign of life for so long hangs.
        start_timeout_s: the longest that its start may take.
        stop_delay_s: for which it still takes requests when it is to end.
    """

    address: str = "127.0.0.1"
    port: int = 5000
    environment: Mapping[str, str] = field(default_factory=dict)
    restart: bool = True
    timeout_s: float = 10.0
    start_timeout_s: float = 60.0
    stop_delay_s: float = 0.0

    def refuse_port_in_use(self) -> None:
        """Raise an error if the gateway could not listen.

        Raises:
            UsageError: nobody could listen there.
            PortInUse: somebody does.
        """
        try:
            is_free = port_is_free(self.address, self.port)
        except UsageError as error:
            raise UsageError(f"--gateway-address, --gateway-port: {error}") from error
        if not is_free:
            raise PortInUse(
                f"--gateway-port {self.port} is in use on {self.address}: name another, or 0 for a "
                "free one, or --no-gateway"
            )

    def url(self, port: int) -> str:
        """Where people reach it from this machine."""
        if self.address in ("127.0.0.1", "::1", "0.0.0.0", "::"):  # noqa: S104
            return f"http://localhost:{port}"
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{port}"


class GatewayProcess(contextlib.AbstractContextManager["GatewayProcess"]):
    """A gateway that is started again when it ends; stop it, or use it as a context."""

    def __init__(
        self, options: GatewayOptions, environment: Mapping[str, str], say: Callable[[str], None]
    ) -> None:
        """Start it and wait until it can be asked.

        Args:
            options: what to start.
            environment: variables that tell it where Triton is.
            say: writes a line to the log.

        Raises:
            UsageError: nobody could listen there, or somebody does.
            GatewayEnded: it did not start.
        """
        self._options, self._say = options, say
        options.refuse_port_in_use()
        port = options.port or free_ports(1)[0]
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

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    @property
    def pid(self) -> int | None:
        """Its process id; None while it waits to be started again."""
        return None if self._process is None else self._process.pid

    def look(self) -> None:
        """Start it again if it ended or hangs; to be called every half second or so.

        Raises:
            GatewayEnded: it ended or hangs, and is not to be started again.
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
        """End it.

        Args:
            drain: let requests in flight finish first.
        """
        if self._process is None:
            return
        with signals_ignored():
            if drain:
                self._process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(self._options.stop_delay_s + DRAIN_S)
            self._process.kill()
            self._process.wait()
            os.close(self._heartbeat)
            self._process = None

    def _start(self) -> None:
        self._heartbeat, theirs = os.pipe()
        os.set_blocking(self._heartbeat, False)
        try:
            # -P: a folder of that name in the working folder is not ours.
            command = [sys.executable, "-P", "-m", "dragoman", "gateway", "--heartbeat"]
            self._process = start_child(
                [*command, str(theirs)], environment=self._environment, descriptors=[theirs]
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
        """Whether signs of life have come since this was asked last."""
        try:
            return bool(os.read(self._heartbeat, _READ_BYTES))
        except BlockingIOError:
            return False

    def _begin_again(self, reason: str) -> None:
        ran_s = time.monotonic() - self._began_s if self._is_ready else 0.0
        self.stop(drain=False)
        if not self._options.restart:
            raise GatewayEnded(reason)
        delay_s = self._backoff.delay_s(ran_s)
        self._start_at_s = time.monotonic() + delay_s
        self._say(f"{reason}; starting it again" + (f" in {delay_s:g} s" if delay_s else ""))

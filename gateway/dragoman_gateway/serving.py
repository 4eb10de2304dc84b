"""The gateway as a process: uvicorn with the application, from its start to its drain."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Generator

import uvicorn

from dragoman.kernel.errors import UsageError
from dragoman_gateway.application import application
from dragoman_gateway.core.gateway import Gateway
from dragoman_gateway.core.settings import GatewaySettings

DRAIN_S = 30
"""The longest that requests in flight may take after SIGTERM."""
_BEAT_S = 1
_BACKLOG = 2048
_KEEP_ALIVE_S = 75
_LAST_PORT = 65535


def serve(settings: GatewaySettings, heartbeat: int | None = None) -> None:
    """Serve until SIGINT or SIGTERM; requests in flight finish first.

    Args:
        settings: of the gateway.
        heartbeat: file descriptor of a pipe that gets a byte when the gateway can be asked, and
            then one each second; without it a line on stderr says when that is.

    Raises:
        UsageError: nobody could listen there, or somebody does already.
    """
    gateway = Gateway(settings)
    listening = _listen(settings.address, settings.port)
    config = uvicorn.Config(
        application(gateway),
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on",
        access_log=False,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=DRAIN_S,
        timeout_keep_alive=_KEEP_ALIVE_S,
        backlog=_BACKLOG,
    )
    server = _Server(config, gateway, heartbeat)
    server.run([listening])


class _Server(uvicorn.Server):
    """Tells when it is ready, gives signs of life, and stops without an error."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway, heartbeat: int | None) -> None:
        super().__init__(config)
        self._gateway, self._heartbeat = gateway, heartbeat

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._heartbeat is not None:
            self._beating = asyncio.create_task(_beat(self._heartbeat))
            return
        port = (sockets or self.servers[0].sockets)[0].getsockname()[1]
        print(f"ready: {url_of(self._gateway.settings.address, port)}", file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        # uvicorn raises a signal once more when it has stopped, which is not an orderly end.
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        yield

    def _stop(self) -> None:
        self._gateway.stopping = True
        self.should_exit = True


async def _beat(descriptor: int) -> None:
    os.set_blocking(descriptor, False)
    while True:
        with contextlib.suppress(OSError):  # nobody has looked for long, or the launcher has gone
            os.write(descriptor, b"\0")
        await asyncio.sleep(_BEAT_S)


def url_of(address: str, port: int) -> str:
    """The URL at which this machine reaches an address."""
    if address in ("127.0.0.1", "::1", "0.0.0.0", "::"):  # noqa: S104
        return f"http://localhost:{port}"
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def _listen(address: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        UsageError: nobody could listen there, or somebody does already.
    """
    if not 0 <= port <= _LAST_PORT:
        raise UsageError(f"--port {port}: give 1 to {_LAST_PORT}, or 0 for a free one")
    listening = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        message = f"--address {address}, --port {port}: {error.strerror or error}"
        raise UsageError(f"{message}: name another, or 0 for a free port") from error
    return listening

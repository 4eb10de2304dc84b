"""The gateway process: runs the application in uvicorn, from startup to graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Generator, Sequence
from functools import partial

import uvicorn

from dragoman.kernel.errors import UsageError
from dragoman.kernel.tracing import TraceOptions, Tracing
from dragoman_gateway.access.shares import Budget
from dragoman_gateway.application import GatewayApplication
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.protocols.kserve.kserve_protocol import NAME as KSERVE
from dragoman_gateway.protocols.kserve.kserve_service import KServeService
from dragoman_gateway.protocols.riva.riva_service import NAME as RIVA
from dragoman_gateway.protocols.riva.riva_service import RivaService
from dragoman_gateway.rpc.calls import Calls
from dragoman_gateway.rpc.rpc_server import RpcServer, Service
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.web.forwarding import Forwarding
from dragoman_gateway.web.middleware.access_log import AccessLog
from dragoman_gateway.web.middleware.connections import BoundedConnection
from dragoman_gateway.web.middleware.request_spans import RequestSpans
from dragoman_gateway.web.middleware.sockets import MESSAGE_BYTES, BoundedSocket

DRAIN_S = 30
"""Maximum time for requests in flight after SIGTERM."""
_BEAT_S = 1
_HEAD_S = 10.0
_BACKLOG = 2048
_KEEP_ALIVE_S = 75
_LAST_PORT = 65535
_OTHER_FILES = 100
"""Reserve for open files other than clients' connections."""
_GARBAGE = 10_000
"""New objects before a garbage collection. With Python's 700, collections take a tenth of the
processor time."""


def serve(
    settings: GatewaySettings, heartbeat: int | None = None, descriptor: int | None = None
) -> None:
    """Serve until SIGINT or SIGTERM; requests in flight finish first.

    Args:
        settings: settings of the gateway.
        heartbeat: file descriptor of a pipe that gets a byte when the gateway is ready, and then
            one each second; without it, a line on stderr says when the gateway is ready.
        descriptor: file descriptor of a socket that listens already; None: open one.

    Raises:
        UsageError: the address cannot be used, or is already in use.
    """
    # python_multipart logs every malformed form, with bytes of it.
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)
    options = TraceOptions.of(settings.otlp, settings.trace_rate)
    gateway = Gateway(settings)
    tracing = None if options is None else Tracing(options, "dragoman-gateway")
    log = AccessLog() if settings.access_log else None
    if descriptor is None:
        listening = _listen(settings.address, settings.port, "--port")
    else:
        listening = socket.socket(fileno=descriptor)
    services: tuple[tuple[str, Callable[[Gateway, Calls], Service], int | None], ...] = (
        (RIVA, RivaService, settings.riva_port),
        (KSERVE, KServeService, settings.kserve_port),
    )
    for name, _, port in services:
        if port:
            _listen(settings.address, port, f"--{name}-port").close()
    most = _most_connections(settings)
    spans = None if tracing is None else RequestSpans(tracing, settings.trace_networks)
    application = GatewayApplication(gateway, log, spans)
    config = uvicorn.Config(
        application,
        loop="uvloop",
        http=partial(  # type: ignore[arg-type]
            BoundedConnection,
            refusal=application.refuse,
            has_socket=application.has_socket,
            most=most,
            shares=Budget.of("connections", most, settings),
            is_proxy=Forwarding(settings.trusted_proxies).trusts,
            head_s=min(_HEAD_S, settings.upload_timeout_s),
        ),
        ws=BoundedSocket,
        ws_max_size=MESSAGE_BYTES,
        ws_per_message_deflate=False,
        lifespan="on",
        access_log=False,
        log_level="error",  # anonymous clients could fill the log with warnings
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=DRAIN_S,
        timeout_keep_alive=_KEEP_ALIVE_S,
        backlog=_BACKLOG,
    )
    rpc_servers = [
        RpcServer(gateway, name, service, port, log=log, spans=spans)
        for name, service, port in services
        if port is not None
    ]
    _Server(config, gateway, rpc_servers, heartbeat).run([listening])
    if tracing is not None:
        tracing.close()
    if log is not None:
        log.close()


class _Server(uvicorn.Server):
    """Reports when it is ready, sends heartbeats, and exits cleanly."""

    def __init__(
        self,
        config: uvicorn.Config,
        gateway: Gateway,
        rpc_servers: Sequence[RpcServer],
        heartbeat: int | None,
    ) -> None:
        super().__init__(config)
        self._gateway, self._rpc_servers, self._heartbeat = gateway, rpc_servers, heartbeat

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._watching = asyncio.create_task(self._gateway.stalls.watch())
        address = self._gateway.settings.address
        for server in self._rpc_servers:
            await server.open()
            _say(f"{server.name}: {url_of(address, server.port).replace('http', 'grpc')}")
        # Modules and endpoints stay, so garbage collections under load must not traverse them.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GARBAGE)
        if self._heartbeat is not None:
            self._beating = asyncio.create_task(_beat(self._heartbeat))
            return
        port = (sockets or self.servers[0].sockets)[0].getsockname()[1]
        _say(f"ready: {url_of(address, port)}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self._rpc_servers:
            self._gateway.finishing.add(asyncio.create_task(server.close(DRAIN_S)))
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        # uvicorn raises the signal again after it has stopped, so the process would not exit
        # cleanly.
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop, number)
        yield

    def _stop(self, number: signal.Signals) -> None:
        if self._gateway.stopping:
            # At once: what is stored is complete after every request.
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self._gateway.stopping = True
        delay_s = self._gateway.settings.stop_delay_s
        asyncio.get_running_loop().call_later(delay_s, self._drain)
        if self._heartbeat is None:
            _say(
                f"stopping: requests in flight have {DRAIN_S} s to finish; Ctrl-C once more ends "
                "them at once"
            )

    def _drain(self) -> None:
        self.should_exit = True


def _most_connections(settings: GatewaySettings) -> int:
    """Returns the maximum number of connections, with a reserve of open files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return max(1, min(settings.connections, hard - _OTHER_FILES))


async def _beat(descriptor: int) -> None:
    os.set_blocking(descriptor, False)
    while True:
        with contextlib.suppress(OSError):  # the pipe is full, or the launcher has exited
            os.write(descriptor, b"\0")
        await asyncio.sleep(_BEAT_S)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def url_of(address: str, port: int) -> str:
    """Returns the URL at which this machine reaches an address."""
    if address in ("127.0.0.1", "::1", "0.0.0.0", "::"):  # noqa: S104
        return f"http://localhost:{port}"
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def _listen(address: str, port: int, flag: str) -> socket.socket:
    """Open a listening socket."""
    if not 0 <= port <= _LAST_PORT:
        raise UsageError(f"{flag} {port}: give 1 to {_LAST_PORT}, or 0 for a free one")
    listening = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        message = f"--address {address}, {flag} {port}: {error.strerror or error}"
        raise UsageError(f"{message}: name another, or 0 for a free port") from error
    return listening

"""The gRPC server of a protocol; it starts and shuts down with the gateway."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

import grpc

from dragoman_gateway.access.record import RequestRecord
from dragoman_gateway.rpc.calls import CALLS, Calls
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.shared.metrics import status_class
from dragoman_gateway.web.middleware.access_log import AccessLog
from dragoman_gateway.web.middleware.request_spans import RequestSpans

_WINDOW_BYTES = 64 << 10
"""What gRPC receives of a call before it is read; with its probe of the bandwidth, megabytes."""
_HANDSHAKE_S = 10.0
"""Time within which a connection must begin as HTTP/2, instead of gRPC's 120 s."""
_IDLE_MS = 60_000
_AGE_S = 300.0
"""Time after which a connection is asked to end, when its calls have ended; gRPC's clients open a
new one. gRPC has no timeout for a request that arrives in small parts."""


class Service(Protocol):
    """The calls of a protocol."""

    @property
    def handlers(self) -> list[Any]:
        """The handlers for a gRPC server."""
        ...


class RpcServer:
    """A gRPC server in the gateway's event loop.

    Attributes:
        name: name of the protocol.
        port: the port that it listens on.
    """

    def __init__(
        self,
        gateway: Gateway,
        name: str,
        service: Callable[[Gateway, Calls], Service],
        port: int = 0,
        *,
        log: AccessLog | None = None,
        spans: RequestSpans | None = None,
    ) -> None:
        """Prepare.

        Args:
            gateway: the gateway's core.
            name: name of the protocol.
            service: makes its service.
            port: the port to listen on; 0: a free one.
            log: gets a line for each call; None: no log.
            spans: makes spans of calls; None: no tracing.
        """
        self.name, self.port = name, port
        self._gateway, self._log = gateway, log
        self._calls = Calls(gateway, name, self._observe, spans)
        self._service = service(gateway, self._calls)
        self._server: Any = None

    async def open(self) -> None:
        """Open the port."""
        # It logs, with a traceback, what clients send; faults are logged by the handlers.
        logging.getLogger("grpc._cython.cygrpc").setLevel(logging.CRITICAL)
        settings = self._gateway.settings
        grace_s = self._calls.upload_s + settings.timeout_s
        self._server = grpc.aio.server(
            maximum_concurrent_rpcs=CALLS,
            options=[
                ("grpc.max_receive_message_length", self._calls.message_bytes),
                # It limits the compressed size: 2 MiB may become gigabytes. The first bit is that
                # of messages that are not compressed, the only ones that are accepted.
                ("grpc.compression_enabled_algorithms_bitset", 1),
                ("grpc.per_message_decompression", 0),
                ("grpc.so_reuseport", 0),
                ("grpc.server_handshake_timeout_ms", int(_HANDSHAKE_S * 1000)),
                ("grpc.http2.bdp_probe", 0),
                ("grpc.http2.lookahead_bytes", _WINDOW_BYTES),
                ("grpc.keepalive_time_ms", _IDLE_MS),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.max_pings_without_data", 0),
                ("grpc.max_connection_age_ms", int(_AGE_S * 1000)),
                ("grpc.max_connection_age_grace_ms", int(grace_s * 1000)),
            ],
        )
        self._server.add_generic_rpc_handlers(self._service.handlers)
        host = f"[{settings.address}]" if ":" in settings.address else settings.address
        self.port = self._server.add_insecure_port(f"{host}:{self.port}")
        await self._server.start()

    async def close(self, drain_s: float) -> None:
        """Accept no more calls, and let those in flight finish within a time."""
        await self._server.stop(drain_s)

    def _observe(self, began: float, call: str, record: RequestRecord) -> None:
        took_s = self._gateway.metrics.end(
            began, self.name, call, status_class(record.status), record.characters
        )
        if self._log is not None:
            self._log.write(record, took_s, protocol=self.name, method="gRPC", endpoint=call)

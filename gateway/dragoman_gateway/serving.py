"""The gateway as a process: uvicorn with the application."""

from __future__ import annotations

import uvicorn

from dragoman_gateway.application import application
from dragoman_gateway.core.gateway import Gateway
from dragoman_gateway.core.settings import GatewaySettings

_DRAIN_S = 30


def serve(settings: GatewaySettings) -> None:
    """Serve until SIGINT or SIGTERM; requests in flight finish first."""
    uvicorn.run(
        application(Gateway(settings)),
        host=settings.address,
        port=settings.port,
        access_log=False,
        log_level="warning",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=_DRAIN_S,
        timeout_keep_alive=75,
        h11_max_incomplete_event_size=64 << 10,
    )

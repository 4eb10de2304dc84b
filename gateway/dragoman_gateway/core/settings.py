"""Settings of the gateway."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dragoman_gateway.core.caller import Limits


def default_folder() -> Path:
    """Where a gateway keeps its state unless it is told otherwise."""
    if given := os.environ.get("DRAGOMAN_GATEWAY_FOLDER"):
        return Path(given)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "dragoman"


@dataclass(frozen=True)
class GatewaySettings:
    """Where the gateway listens, what it stands before, and its bounds.

    Attributes:
        address: IP address to listen on.
        port: 0: a free one.
        triton: gRPC URL of Triton, for requests that are answered at once.
        triton_http: HTTP URL of Triton, for streams: one that is broken off over gRPC can crash
            Triton 24.10.
        folder: of the gateway's state: keys, usage, glossaries, documents; commands give
            `default_folder()`. None: in memory, or a temporary folder.
        path_prefix: path under which a proxy publishes the gateway, such as `/translate`.
        public_url: how people reach the gateway, for absolute URLs in answers; None: as requested.
        trusted_proxies: networks whose `X-Forwarded-*` headers are believed, such as `10.0.0.0/8`.
        allowed_origins: origins of web pages that may call the gateway (CORS); `*`: all.
        allowed_hosts: more names by which the gateway may be called, beside its address and
            localhost.
        timeout_s: longest time for a request.
        upload_timeout_s: longest time for a body to arrive.
        body_bytes: longest body, uploaded files aside.
        file_bytes: longest uploaded file.
        cache_bytes: memory of the cache of translations; 0: no cache.
        anonymous: limits of requests without a key, for each network address; that of a month is
            for all of them together. None: a key is required, unless access is open.
        limits_url: of a Redis server that shares limits among gateways, such as
            `redis://localhost:6379/0`; None: limits are this gateway's own.
    """

    address: str = "127.0.0.1"
    port: int = 5000
    triton: str = "grpc://localhost:8001"
    triton_http: str = "http://localhost:8000"
    folder: Path | None = None
    path_prefix: str = ""
    public_url: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    timeout_s: float = 60.0
    upload_timeout_s: float = 30.0
    body_bytes: int = 8 << 20
    file_bytes: int = 32 << 20
    cache_bytes: int = 64 << 20
    anonymous: Limits | None = None
    limits_url: str | None = None

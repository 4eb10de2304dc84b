"""Settings of the gateway."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from dragoman.kernel.tracing import DEFAULT_RATE
from dragoman_gateway.core.caller import Limits

_LOOPBACK = ("127.0.0.0/8", "::1/128")


def default_folder() -> Path:
    """Where a gateway keeps its state by default."""
    if given := os.environ.get("DRAGOMAN_GATEWAY_FOLDER"):
        return Path(given)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "dragoman"


@dataclass(frozen=True)
class GatewaySettings:
    """Where the gateway listens, where Triton is, and its limits.

    Attributes:
        address: IP address to listen on.
        port: 0: a free one.
        triton: gRPC URL of Triton, for requests that are answered at once.
        triton_http: HTTP URL of Triton, for streams: cancelling one over gRPC can crash Triton
            24.10.
        folder: of the gateway's state: keys, usage, glossaries, documents. None: the commands
            take `~/.local/state/dragoman`; a `Gateway` alone keeps documents in a temporary folder
            and the rest in memory.
        path_prefix: path under which a proxy publishes the gateway, such as `/translate`.
        public_url: how people reach the gateway, for absolute URLs in answers; None: as requested.
        trusted_proxies: networks whose `X-Forwarded-*` headers are believed, such as `10.0.0.0/8`.
        allowed_origins: origins of web pages that may call the gateway (CORS); `*`: all.
        allowed_hosts: more names by which the gateway may be called, beside its address and
            localhost.
        timeout_s: longest time for a request.
        upload_timeout_s: longest time for a body to arrive; a large one has more, at 64 KiB/s.
        body_bytes: longest body, uploaded files aside.
        file_bytes: longest uploaded file.
        cache_bytes: memory of the cache of translations; 0: no cache.
        document_bytes: of all documents and their translations that are kept.
        document_bytes_per_caller: of all documents and their translations of one key, or of one
            network address without a key.
        document_expiry_s: time after which a document and its translation are removed.
        document_number: most documents that are kept.
        document_number_per_caller: most documents of one key, or of one network address without a
            key.
        document_workers: documents that are translated at once.
        glossaries_per_owner: most glossaries of one key, or of all requests without a key together.
        glossary_bytes: longest dictionary of a glossary, as JSON.
        glossary_bytes_per_owner: most bytes of all dictionaries of one key, or of all requests
            without a key together.
        glossary_bytes_together: most bytes of all dictionaries.
        glossary_entries: most entries of a dictionary.
        libretranslate_title: whether `/spec` has the title "LibreTranslate": some clients, such as
            Dialect, accept no other.
        access_log: whether to write a line of JSON for each request to stderr, without texts.
        connections: most connections at once.
        metrics_networks: networks that may read /metrics.
        otlp: URL of an OpenTelemetry collector, such as `http://localhost:4318`, that gets spans of
            requests; None: nothing is traced.
        trace_rate: share of the requests that are traced, from 0 to 1; those that bring a trace
            context have their own.
        trace_networks: networks whose requests may bring a trace context (`traceparent`).
        riva_port: of NVIDIA Riva's protocol over gRPC, 50051 in NVIDIA's container; 0: a free one;
            None: it is not served.
        stop_delay_s: time for which requests are still accepted after SIGTERM while /readyz says
            no, so that a load balancer stops sending them.
        anonymous: whether requests without a key are answered although keys are required; not
            needed for open access, on loopback before there is a key.
        anonymous_requests_per_minute: of each network address.
        anonymous_characters_per_minute: of source text, of each network address.
        anonymous_characters_per_month: of source text, of all without a key together.
        anonymous_characters_per_request: of source text.
        anonymous_concurrent_requests: at once, of each network address.
        limits_url: of a Redis server by which gateways share limits, such as
            `redis://localhost:6379/0`; a password belongs into the variable, not on the command
            line.
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
    document_bytes: int = 1 << 30
    document_bytes_per_caller: int = 256 << 20
    document_expiry_s: float = 3600.0
    document_number: int = 1000
    document_number_per_caller: int = 200
    document_workers: int = 2
    glossaries_per_owner: int = 1000
    glossary_bytes: int = 10 << 20
    glossary_bytes_per_owner: int = 64 << 20
    glossary_bytes_together: int = 1 << 30
    glossary_entries: int = 100_000
    libretranslate_title: bool = False
    access_log: bool = False
    connections: int = 2000
    metrics_networks: tuple[str, ...] = _LOOPBACK
    otlp: str | None = None
    trace_rate: float = DEFAULT_RATE
    trace_networks: tuple[str, ...] = _LOOPBACK
    riva_port: int | None = None
    stop_delay_s: float = 0.0
    anonymous: bool = False
    anonymous_requests_per_minute: int | None = 300
    anonymous_characters_per_minute: int | None = 100_000
    anonymous_characters_per_month: int | None = None
    anonymous_characters_per_request: int | None = 10_000
    anonymous_concurrent_requests: int | None = 8
    limits_url: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether the gateway is reached from its own machine alone, as far as it knows."""
        if self.trusted_proxies or self.public_url is not None:
            return False
        try:
            return ipaddress.ip_address(self.address).is_loopback
        except ValueError:
            return self.address == "localhost"

    @property
    def anonymous_limits(self) -> Limits:
        """Of a caller without a key, where access is not open."""
        return Limits(
            self.anonymous_requests_per_minute,
            self.anonymous_characters_per_minute,
            self.anonymous_characters_per_month,
            self.anonymous_characters_per_request,
            self.anonymous_concurrent_requests,
        )

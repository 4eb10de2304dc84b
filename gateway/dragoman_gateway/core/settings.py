"""Settings of the gateway."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from dragoman.kernel.errors import UsageError
from dragoman.kernel.tracing import DEFAULT_RATE
from dragoman_gateway.core.caller import Limits

GIVE_A_FOLDER = (
    "give a folder that only this user can write: --gateway-folder of dragoman serve, --folder of "
    "dragoman gateway, or DRAGOMAN_GATEWAY_FOLDER"
)
_LOOPBACK = ("127.0.0.0/8", "::1/128")


def default_folder() -> Path:
    """Returns the default folder of the gateway's state.

    Raises:
        UsageError: the user has no home folder.
    """
    if given := os.environ.get("DRAGOMAN_GATEWAY_FOLDER"):
        return Path(given)
    try:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise UsageError(f"this user has no home folder: set HOME, or {GIVE_A_FOLDER}") from error
    return Path(state) / "dragoman"


@dataclass(frozen=True)
class GatewaySettings:
    """Addresses, limits and features of the gateway.

    The descriptions below are also the help texts of the flags.

    Attributes:
        address: IP address to listen on.
        port: port to listen on; 0: a free one.
        triton: gRPC URL of Triton; or `unix:/path`, the socket of an engine on this machine, which
            `dragoman serve` uses; paths of several engines are separated by commas.
        triton_http: HTTP URL of Triton, for streams: cancelling one over gRPC can crash Triton
            24.10. Not used with an engine's socket.
        folder: folder of the gateway's state: keys, usage, glossaries, translation memories,
            documents. By default, the commands use `~/.local/state/dragoman`; a `Gateway` object
            keeps memories and documents in temporary folders and the rest in memory.
        path_prefix: path under which a proxy publishes the gateway, such as `/translate`.
        public_url: public URL of the gateway, for absolute URLs in answers; by default, the
            requested one.
        trusted_proxies: networks whose `X-Forwarded-*` headers are trusted, such as `10.1.2.3/32`.
        allowed_origins: origins of web pages that may call the gateway (CORS); `*`: all.
        allowed_hosts: additional host names of the gateway, besides its address and localhost.
        timeout_s: maximum time for a request.
        upload_timeout_s: maximum time to receive a body; a large one has more, at 64 KiB/s.
        body_bytes: maximum size of a body, except uploaded files.
        file_bytes: maximum size of an uploaded file.
        cache_bytes: maximum memory of the translation cache; 0: no cache.
        share_cache: whether all keys share the cache. Then a key can find out, by the time of an
            answer, whether another key has translated a sentence.
        document_bytes: maximum size of all stored documents and their translations.
        document_bytes_per_caller: maximum size of all documents and their translations of one key,
            or of one network address without a key.
        document_expiry_s: time after which a document and its translation are removed.
        document_number: maximum number of stored documents.
        document_number_per_caller: maximum number of documents of one key, or of one network
            address without a key.
        document_workers: number of documents that are translated at the same time.
        glossaries_per_owner: maximum number of glossaries of one key, or of all requests without a
            key together.
        glossary_bytes: maximum size of a glossary's dictionary, as JSON.
        glossary_bytes_per_owner: maximum size of all dictionaries of one key, or of all requests
            without a key together.
        glossary_bytes_together: maximum size of all dictionaries.
        glossary_entries: maximum number of entries of a dictionary.
        memories_per_owner: maximum number of translation memories of one key, or of all requests
            without a key together.
        memory_segments: maximum number of segments of a translation memory.
        memory_bytes_per_owner: maximum size of all translation memories of one key, or of all
            requests without a key together.
        memory_bytes_together: maximum size of all translation memories.
        live_sessions: maximum number of live sessions.
        libretranslate_title: whether `/spec` has the title "LibreTranslate": some clients, such as
            Dialect, accept no other.
        access_log: whether to write a line of JSON for each request to stderr, without texts.
        connections: maximum number of open connections.
        client_share: share of the connections, of the bodies, of the live sessions, and of the
            documents that are read or translated at the same time, that one client may use: a key,
            an IPv4 address, or an IPv6 network of 64 bits; 1: no limit.
        metrics_networks: networks that may read /metrics.
        otlp: URL of an OpenTelemetry collector for spans of requests, such as
            `http://localhost:4318`; by default, nothing is traced.
        trace_rate: share of the requests that are traced, from 0 to 1; requests with a trace
            context decide for themselves.
        trace_networks: networks whose trace context (`traceparent`) is accepted.
        riva_port: port of NVIDIA Riva's gRPC protocol, 50051 in NVIDIA's container; 0: a free one;
            by default, the protocol is off.
        kserve_port: port of KServe v2's gRPC protocol, 8001 in Triton; 0: a free one; by default,
            the protocol is served over HTTP only.
        stop_delay_s: time after SIGTERM during which requests are still accepted while /readyz
            fails, so that a load balancer stops sending them.
        anonymous: whether to answer requests without a key although there are keys; not needed
            for open access, on loopback before there is a key.
        anonymous_requests_per_minute: maximum requests per minute of each network address without a
            key.
        anonymous_characters_per_minute: maximum characters of source text per minute of each
            network address without a key.
        anonymous_characters_per_month: maximum characters of source text per month of all requests
            without a key together.
        anonymous_characters_per_request: maximum characters of source text in a request without a
            key.
        anonymous_concurrent_requests: maximum concurrent requests of each network address without
            a key.
        limits_url: URL of a Redis server through which gateways share limits, such as
            `redis://localhost:6379/0`; set a password in the variable, not on the command line.
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
    share_cache: bool = False
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
    memories_per_owner: int = 100
    memory_segments: int = 1_000_000
    memory_bytes_per_owner: int = 1 << 30
    memory_bytes_together: int = 4 << 30
    live_sessions: int = 200
    libretranslate_title: bool = False
    access_log: bool = False
    connections: int = 2000
    client_share: float = 0.25
    metrics_networks: tuple[str, ...] = _LOOPBACK
    otlp: str | None = None
    trace_rate: float = DEFAULT_RATE
    trace_networks: tuple[str, ...] = _LOOPBACK
    riva_port: int | None = None
    kserve_port: int | None = None
    stop_delay_s: float = 0.0
    anonymous: bool = False
    anonymous_requests_per_minute: int | None = 300
    anonymous_characters_per_minute: int | None = 100_000
    anonymous_characters_per_month: int | None = None
    anonymous_characters_per_request: int | None = 10_000
    anonymous_concurrent_requests: int | None = 8
    limits_url: str | None = None

    @property
    def engine_path(self) -> str | None:
        """Path of the engine's socket, or several; None: requests go to Triton."""
        scheme, _, path = self.triton.partition(":")
        return path if scheme == "unix" else None

    @property
    def is_local(self) -> bool:
        """Whether the gateway is reachable only from its own machine, according to the settings."""
        if self.trusted_proxies or self.public_url is not None:
            return False
        try:
            return ipaddress.ip_address(self.address).is_loopback
        except ValueError:
            return self.address == "localhost"

    @property
    def anonymous_limits(self) -> Limits:
        """The limits of a caller without a key if access is not open."""
        return Limits(
            self.anonymous_requests_per_minute,
            self.anonymous_characters_per_minute,
            self.anonymous_characters_per_month,
            self.anonymous_characters_per_request,
            self.anonymous_concurrent_requests,
        )

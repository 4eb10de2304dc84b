"""Settings of the gateway."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class GatewaySettings:
    """Where the gateway listens, what it stands before, and its bounds.

    Attributes:
        address: IP address to listen on.
        port: 0: a free one.
        triton: gRPC URL of Triton, for requests that are answered at once.
        triton_http: HTTP URL of Triton, for streams: one that is broken off over gRPC can crash
            Triton 24.10.
        folder: of the gateway's state: keys, usage, glossaries, documents. None: in memory, or a
            temporary folder.
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
        document_bytes: of all documents and their translations that are kept.
        document_expiry_s: time after which a document and its translation are removed.
        document_number: most documents that are kept.
        document_workers: documents that are translated at once.
        glossaries_per_owner: most glossaries of a key, or of everybody without one.
        glossary_bytes: longest dictionary of a glossary, as JSON.
        glossary_entries: most entries of a dictionary.
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
    document_expiry_s: float = 3600.0
    document_number: int = 1000
    document_workers: int = 2
    glossaries_per_owner: int = 1000
    glossary_bytes: int = 10 << 20
    glossary_entries: int = 100_000

"""Where a URL leads."""

from __future__ import annotations

import dataclasses
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from dragoman_client.access import Access

_PORTS = {"grpc": 8001, "grpcs": 443, "http": 8000, "https": 443}
"""Usual ones: Triton's, or a proxy's with TLS."""


@dataclasses.dataclass(frozen=True)
class Address:
    """A server, and how it is spoken to.

    Attributes:
        is_grpc: by gRPC, else by HTTP.
        tls: whether with TLS.
        authority: host and port.
        path: of a proxy, before Triton's own, without a slash at its end.
    """

    is_grpc: bool
    tls: bool
    authority: str
    path: str = ""

    def url(self, protocol: Literal["grpc", "http"]) -> str:
        """The URL of the same host and port for a protocol."""
        return f"{protocol}{'s' if self.tls else ''}://{self.authority}"


def read_url(url: str, access: Access) -> Address:
    """What a URL says.

    Args:
        url: `grpc://host:port`, `http://host:port/path`, or `grpcs` and `https` with TLS; the
            usual port where none is given. Without a scheme, `host` and `host:8001` are gRPC, and
            other ports HTTP.
        access: what goes with every request.

    Raises:
        ValueError: a URL that names no server, or certificates that it has no use for.
    """
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
        port = parts.port
    except ValueError as error:
        raise ValueError(f"URL {url!r}: {error}") from error
    if "://" not in url:
        parts = parts._replace(scheme="grpc" if port in (None, _PORTS["grpc"]) else "http")
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(
            f"URL {url!r}: write grpc://localhost:8001 or http://localhost:8000, or grpcs:// or "
            "https:// with TLS"
        )
    if _has_more_than_an_address(parts):
        raise ValueError(f"URL {url!r}: only a scheme, a host, a port and, for http, a path")
    tls = parts.scheme.endswith("s")
    if access.wants_tls and not tls:
        raise ValueError(f"URL {url!r}: certificates are for grpcs:// and https://")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return Address(
        is_grpc=parts.scheme.startswith("grpc"),
        tls=tls,
        authority=f"{host}:{port or _PORTS[parts.scheme]}",
        path=parts.path.rstrip("/"),
    )


def _has_more_than_an_address(parts: SplitResult) -> bool:
    """Whether a URL says something that no transport would heed."""
    path_on_grpc = parts.scheme.startswith("grpc") and parts.path not in ("", "/")
    return bool(path_on_grpc or parts.query or parts.fragment or "@" in parts.netloc)

"""Parsing of server URLs."""

from __future__ import annotations

import dataclasses
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from dragoman_client.core.access import Access

_PORTS = {"grpc": 8001, "grpcs": 443, "http": 8000, "https": 443}
"""Default ports: Triton's, or those of a proxy with TLS."""

_SOCKET = "unix:"


@dataclasses.dataclass(frozen=True)
class Address:
    """The address of a server, with its protocol.

    Attributes:
        is_engine: whether it is an engine's socket on this machine, at `path`, or several; see
            `frames.join_paths`.
        is_grpc: whether the protocol is gRPC; else HTTP, or the engine's.
        tls: whether to use TLS.
        authority: host and port.
        path: path of the socket; or path prefix at a proxy, before Triton's own paths, without a
            trailing slash.
    """

    is_grpc: bool
    tls: bool
    authority: str
    path: str = ""
    is_engine: bool = False

    def url(self, protocol: Literal["grpc", "http"]) -> str:
        """The URL of the same host and port for a protocol."""
        return f"{protocol}{'s' if self.tls else ''}://{self.authority}"


def read_url(url: str, access: Access) -> Address:
    """Parse a URL.

    Args:
        url: `grpc://host:port`, `http://host:port/path`, or `grpcs` and `https` with TLS; without
            a port, the default port. `unix:/path` is an engine's socket, and
            `unix:/path,/path` those of several engines of a server. Without a scheme, `host`
            and `host:8001` are gRPC, and other ports HTTP.
        access: the client's credentials.

    Raises:
        ValueError: the URL names no server, or certificates are given for a URL without TLS.
    """
    if url.startswith(_SOCKET):
        path = url.removeprefix(_SOCKET)
        if not path.startswith("/") or access.wants_tls:
            raise ValueError(f"URL {url!r}: write unix:/path, without certificates")
        return Address(is_grpc=False, tls=False, authority="", path=path, is_engine=True)
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
    """Whether a URL has parts that the transports would ignore."""
    path_on_grpc = parts.scheme.startswith("grpc") and parts.path not in ("", "/")
    return bool(path_on_grpc or parts.query or parts.fragment or "@" in parts.netloc)

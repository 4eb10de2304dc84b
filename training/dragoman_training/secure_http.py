"""Requests over HTTPS; plain HTTP is allowed to loopback only, redirects included."""

from __future__ import annotations

import http.client
import ipaddress
import urllib.error
import urllib.request
from email.message import Message
from typing import IO
from urllib.parse import urlsplit

Hop = tuple[str, Message]
"""A URL that answered with a redirect, and the headers of that response."""


def is_secure(url: str) -> bool:
    """Whether nobody can tamper with what the URL returns: it uses HTTPS or leads to loopback.

    Raises:
        ValueError: it is not a URL.
    """
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname))


def open_url(
    request: urllib.request.Request, timeout_s: float, hops: list[Hop] | None = None
) -> http.client.HTTPResponse:
    """Send a request, and follow redirects while they are secure.

    Args:
        request: what to send.
        timeout_s: for the connection, and for each read.
        hops: receives the redirects that were followed.

    Raises:
        urllib.error.URLError: as `urllib.request.urlopen`, or if a URL is not secure.
    """
    if not is_secure(request.full_url):
        raise urllib.error.URLError("it is not https://")
    opener = urllib.request.build_opener(_SecureRedirects(hops if hops is not None else []))
    answer: http.client.HTTPResponse = opener.open(request, timeout=timeout_s)
    return answer


class _SecureRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects away from HTTPS, even to loopback: no server may redirect us there."""

    def __init__(self, hops: list[Hop]) -> None:
        self._hops = hops

    def redirect_request(
        self,
        request: urllib.request.Request,
        file: IO[bytes],
        code: int,
        reason: str,
        headers: Message,
        url: str,
    ) -> urllib.request.Request | None:
        if not is_secure(url) or (request.type == "https" and urlsplit(url).scheme != "https"):
            raise urllib.error.URLError(f"it redirects to {url}, which is not https://")
        self._hops.append((request.full_url, headers))
        following = super().redirect_request(request, file, code, reason, headers, url)  # type: ignore[arg-type]
        if following is not None and _server(url) != _server(request.full_url):
            following.headers.pop("Authorization", None)  # another server must not see it
        return following


def _server(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False

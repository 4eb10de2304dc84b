"""Protection against requests from foreign web pages, and CORS.

A page of any site can make the browsers of its visitors send requests to loopback and to private
networks. If a request needs no key, two checks stop such pages:

- The Host header must be one of the gateway's names. A site that points its own name to 127.0.0.1
  (DNS rebinding) would otherwise have the gateway's origin and could read its answers.
- A request from a page of another origin is refused, according to its headers Origin and
  Sec-Fetch-Site, which pages cannot change. A form or a script could otherwise send texts, or
  change glossaries and documents, without reading an answer. Links to the gateway's page work,
  those with a query to other paths do not: they could translate.

If a key is required, these checks are not needed, since a page of another site has no key. Then
only CORS decides what pages may read.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from dragoman.kernel.errors import UsageError
from dragoman_gateway.core.errors import Forbidden, GatewayError
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.web.forwarding import FORWARDED, flags_of, open_behind_proxy

ANY = "*"
_EXTENSION = re.compile(rb"(?:chrome|moz|safari-web|safari)-extension://")
"""Origins of browser extensions, which are allowed because their users installed them."""
_HOST = re.compile(rb"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?")
_NAVIGATIONS = frozenset(("GET", "HEAD"))


class Origins:
    """Allows or refuses requests by their headers Host and Origin."""

    def __init__(self, settings: GatewaySettings) -> None:
        """Read the settings.

        Raises:
            UsageError: an allowed origin or host is not valid.
        """
        self._hosts = {host.lower().encode() for host in settings.allowed_hosts}
        self._hosts.add(settings.address.lower().encode())
        if settings.public_url is not None:
            self._hosts.add((urlsplit(settings.public_url).hostname or "").encode())
        if wrong := [host for host in settings.allowed_hosts if ":" in host or "/" in host]:
            raise UsageError(f"allowed_hosts: {wrong[0]!r}: give a name without scheme and port")
        self._allows_all = ANY in settings.allowed_origins
        self._allowed = {_origin(origin) for origin in settings.allowed_origins if origin != ANY}
        self._is_checked = bool(settings.allowed_hosts)

    def allows(self, origin: bytes) -> bool:
        """Whether the settings allow an origin."""
        return self._allows_all or origin in self._allowed

    def answer_headers(self, origin: bytes | None) -> list[tuple[bytes, bytes]]:
        """Returns the CORS headers of an answer."""
        if self._allows_all:
            return _READABLE_BY_ALL
        if origin is not None and origin in self._allowed:
            return [
                (b"access-control-allow-origin", origin),
                (b"access-control-expose-headers", b"*"),
                (b"vary", b"Origin"),
            ]
        return [(b"vary", b"Origin")] if self._allowed else []

    def refusal(
        self,
        method: str,
        headers: Mapping[bytes, bytes],
        needs_no_key: bool,
        is_open: bool,
        *,
        has_query: bool = False,
    ) -> GatewayError | None:
        """Returns the error for a request that is not allowed, or None.

        Args:
            method: method of the request.
            headers: headers by name.
            needs_no_key: whether the request is answered without a key.
            is_open: whether everybody may use the gateway without limits.
            has_query: whether the request has a query, and is not for the page.
        """
        host = headers.get(b"host", b"")
        if (needs_no_key or self._is_checked) and not self._is_ours(host):
            return Forbidden(
                f"this gateway is not called {host[:100].decode('latin-1')!r}: use its address or "
                f"localhost; the operator allows other names with {flags_of('allowed-hosts')}"
            )
        if is_open and not FORWARDED.isdisjoint(headers):
            return open_behind_proxy()
        may_be_link = method in _NAVIGATIONS and not has_query
        if needs_no_key and self._is_of_another_page(may_be_link, headers, host):
            return Forbidden(
                "a web page of another origin may not call this gateway: the operator allows its "
                f"origin with {flags_of('allowed-origins')}"
            )
        return None

    def is_foreign(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether a request comes from a web page whose origin is not allowed."""
        return self._is_of_another_page(False, headers, headers.get(b"host", b""))

    def _is_ours(self, host: bytes) -> bool:
        """Whether a Host header names this gateway; IP addresses cannot be rebound by DNS."""
        match = _HOST.fullmatch(host.lower())
        if match is None:  # also for two joined headers
            return False
        name = (match[1] or match[2]).rstrip(b".")
        if name == b"localhost" or name in self._hosts or name.endswith(b".localhost"):
            return True
        try:
            ipaddress.ip_address(name.decode("latin-1"))
        except ValueError:
            return False
        return True

    def _is_of_another_page(
        self, may_be_link: bool, headers: Mapping[bytes, bytes], host: bytes
    ) -> bool:
        site = headers.get(b"sec-fetch-site")
        if site in (b"same-origin", b"none"):
            return False
        origin = headers.get(b"origin")
        if origin is not None:
            is_own = origin.partition(b"://")[2].lower() == host.lower()
            return not (is_own or self.allows(origin) or _EXTENSION.match(origin))
        if site is None:  # not a browser, or a request of an old one that changes nothing
            return False
        is_link = may_be_link and headers.get(b"sec-fetch-mode") == b"navigate"
        return not (is_link or self._allows_all)


_READABLE_BY_ALL = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"*"),
]


def _origin(written: str) -> bytes:
    """Returns an origin in the form that browsers send."""
    parts = urlsplit(written)
    if not parts.scheme or not parts.netloc or parts.path not in ("", "/") or parts.query:
        raise UsageError(
            f"allowed_origins: {written!r} is not an origin: give one such as https://example.com"
        )
    return f"{parts.scheme}://{parts.netloc}".lower().encode()

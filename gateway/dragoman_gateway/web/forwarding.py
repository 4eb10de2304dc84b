"""Forwarding headers of proxies; only trusted proxies may set them."""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Mapping, Sequence

from starlette.types import Scope

from dragoman.kernel.errors import UsageError
from dragoman_gateway.core.errors import Forbidden

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
FORWARDED = frozenset(
    (
        *(b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"true-client-ip"),
        *(b"cf-connecting-ip", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-port"),
        *(b"x-forwarded-prefix", b"x-forwarded-proto", b"x-forwarded-server"),
    )
)
"""Headers that only proxies send."""
_MOST_HOPS = 20
_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~-]+)+")
_HOST = re.compile(rb"[A-Za-z0-9._-]+(?::\d{1,5})?|\[[0-9A-Fa-f:.]+\](?::\d{1,5})?")


def flags_of(setting: str) -> str:
    """Returns the flags of a setting of the gateway."""
    return f"--gateway-{setting} of dragoman serve, or --{setting} of dragoman gateway"


def open_behind_proxy() -> Forbidden:
    """Returns the refusal of a request that an unknown proxy forwards to an open gateway."""
    return Forbidden(
        "a proxy forwards to this gateway, which is open to everybody: create a key with "
        f"dragoman keys add, or name the proxy with {flags_of('trusted-proxies')}"
    )


class Networks:
    """Networks of IP addresses; IPv4 clients of an IPv6 socket count as IPv4."""

    def __init__(self, setting: str, written: Sequence[str]) -> None:
        """Parse the networks.

        Args:
            setting: name of the setting, for messages.
            written: networks such as `10.0.0.0/8`.

        Raises:
            UsageError: a network is not valid.
        """
        self._networks: list[Network] = []
        for network in written:
            try:
                self._networks.append(ipaddress.ip_network(network, strict=False))
            except ValueError as error:
                raise UsageError(
                    f"{setting}: {network!r} is not a network: give one such as 10.0.0.0/8"
                ) from error

    def have(self, address: str) -> bool:
        """Whether an address is in one of the networks."""
        try:
            ip = ipaddress.ip_address(address)
        except ValueError:
            return False
        if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        return any(ip in network for network in self._networks)


class Forwarding:
    """Reads the headers of trusted proxies."""

    def __init__(self, trusted: tuple[str, ...]) -> None:
        """Parse the networks.

        Args:
            trusted: networks of trusted proxies.

        Raises:
            UsageError: a network is not valid.
        """
        networks = Networks("trusted_proxies", trusted)
        self._trusts = functools.lru_cache(4096)(networks.have)
        self._are_any = bool(trusted)

    def trusts(self, address: str) -> bool:
        """Whether an address belongs to a trusted proxy."""
        return self._are_any and self._trusts(address)

    def apply(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        """Set client, scheme, host and path prefix of a request from a trusted proxy's headers.

        Malformed headers are ignored.

        Args:
            scope: scope of a request from a trusted proxy.
            headers: headers by name; repeated ones are joined by commas.
        """
        if value := headers.get(b"x-forwarded-for"):
            scope["client"] = (self.client(value, scope["client"][0]), 0)
        if (scheme := _last(headers, b"x-forwarded-proto")) in (b"http", b"https"):
            scope["scheme"] = scheme.decode()
        if (host := _last(headers, b"x-forwarded-host")) and _HOST.fullmatch(host):
            replace_host(scope, host)
        prefix = _last(headers, b"x-forwarded-prefix").decode("latin-1").rstrip("/")
        if _PREFIX.fullmatch(prefix):
            scope["root_path"] = prefix

    def client(self, value: bytes, proxy: str) -> str:
        """Returns the nearest address that is not a trusted proxy; farther ones can be forged.

        Args:
            value: the header `X-Forwarded-For`.
            proxy: address of the trusted proxy that sent it.
        """
        client = proxy
        for part in reversed(value.decode("latin-1").split(",")[-_MOST_HOPS:]):
            address = _address(part.strip())
            if address is None:
                break
            client = address
            if not self._trusts(address):
                break
        return client


def replace_host(scope: Scope, host: bytes) -> None:
    """Replace the Host header of a request."""
    others = [pair for pair in scope["headers"] if pair[0] != b"host"]
    scope["headers"] = [(b"host", host), *others]


def _last(headers: Mapping[bytes, bytes], name: bytes) -> bytes:
    """Returns the value set by the nearest proxy."""
    return headers.get(name, b"").rpartition(b",")[2].strip()


def _address(written: str) -> str | None:
    """Returns an IP address without its port; None: not an IP address."""
    if written.startswith("["):
        written = written[1:].partition("]")[0]
    elif written.count(":") == 1:
        written = written.partition(":")[0]
    try:
        return str(ipaddress.ip_address(written))
    except ValueError:
        return None

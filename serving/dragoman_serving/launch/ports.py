"""The ports that a server listens on."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator
from dataclasses import astuple, dataclass

from dragoman.kernel.errors import UsageError

_LAST_PORT = 65535
_BACKLOG = 2048


@dataclass(frozen=True)
class Ports:
    """A port for each protocol."""

    http: int
    grpc: int
    metrics: int


class PortInUse(UsageError):
    """Another program listens on the port."""


def free_ports(number: int) -> list[int]:
    """Returns free ports of the loopback interface."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(number)]
        for probe in sockets:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in sockets]


def port_is_free(address: str, port: int) -> bool:
    """Whether a server could listen on a port now.

    Raises:
        UsageError: no such port or address, or no permission.
    """
    try:
        _bound_socket(address, port).close()
    except PortInUse:
        return False
    return True


def listening_socket(address: str, port: int) -> socket.socket:
    """Returns a socket that listens on a port, or on a free one for 0.

    Raises:
        UsageError: no such port or address, or no permission.
        PortInUse: the port is in use.
    """
    listening = _bound_socket(address, port)
    try:
        listening.listen(_BACKLOG)
    except OSError as error:  # another socket that may share the port already listens
        listening.close()
        raise PortInUse(f"port {port} is in use on {address}") from error
    return listening


def _bound_socket(address: str, port: int) -> socket.socket:
    if not 0 <= port <= _LAST_PORT:
        raise UsageError(f"port {port}: give 1 to {_LAST_PORT}, or 0 for a free one")
    bound = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((address, port))
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(f"port {port} is in use on {address}") from error
        raise UsageError(f"{address}, port {port}: {error.strerror}") from error
    return bound


def choose_ports(address: str, requested: Ports) -> Ports:
    """Returns the wanted ports, with a free port for each 0.

    Raises:
        UsageError: two ports are equal, or a port is not usable.
        PortInUse: a port is in use.
    """
    given = [port for port in astuple(requested) if port]
    if len(set(given)) < len(given):
        raise UsageError(f"the ports {', '.join(map(str, given))} must differ")
    for name, port in vars(requested).items():
        if not port_is_free(address, port):
            raise PortInUse(
                f"--{name}-port {port} is in use on {address}: name another, or 0 for a free one"
            )
    free: Iterator[int] = iter(free_ports(3))
    return Ports(*(port or next(free) for port in astuple(requested)))

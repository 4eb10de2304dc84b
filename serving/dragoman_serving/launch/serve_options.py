"""Options of a server, and checks of the machine's limits."""

from __future__ import annotations

import ipaddress
import resource
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dragoman.kernel.errors import UsageError
from dragoman.kernel.tracing import TraceOptions
from dragoman_serving.service.models_to_serve import ModelsToServe

_LEAST_FILES = 256
"""Triton has about 70 files open when idle; the rest is for connections and for more cores."""


@dataclass(frozen=True)
class ServeOptions:
    """Options of a server. A port of 0 is replaced by a free one."""

    repository: Path | None
    """Triton model repository; None: the bundles of `to_serve` are served instead."""
    address: str = "127.0.0.1"
    triton: bool = True
    """Whether to start Triton; without it, only the gateway reaches the engine."""
    http_port: int = 8000
    grpc_port: int = 8001
    metrics_port: int = 8002
    expose_unpatched_server: bool = False
    start_timeout_s: float = 120.0
    log_verbose: bool = False
    config: str | None = None
    """Name of the configuration to use, for models that have it under `configs`."""
    more_models: tuple[str, ...] = ()
    """Models of the repository to load besides those that translate."""
    engines: int | None = 1
    """Number of engine processes; None: one for every few cores."""
    restart_engines: bool = True
    """Whether an engine process that ends is restarted, while others run."""
    engine_timeout_s: float = 10.0
    """Timeout of heartbeats: an engine or a Triton without one for longer is killed."""
    triton_growth_bytes: int = 1 << 30
    """Memory by which Triton may grow after its start. After more growth, it is restarted when it
    is idle; after twice as much, immediately."""
    grpc_connection_age_s: int | None = None
    """Age at which a gRPC connection takes no more requests; those in flight finish."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the engine's models; they override those in their `config.pbtxt`."""
    to_serve: ModelsToServe = field(default_factory=ModelsToServe)
    """Bundles, if there is no repository, and the engine's settings for models."""
    tracing: TraceOptions | None = None
    """Where to send spans; None: no tracing."""

    @property
    def client_address(self) -> str:
        """The address for clients on this machine, as part of a URL."""
        any_address = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
        address = any_address.get(self.address, self.address)
        return f"[{address}]" if ":" in address else address


def refuse_few_files() -> None:
    """Raise UsageError if the limit of open files is too low for the server."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < _LEAST_FILES:
        raise UsageError(
            f"the hard limit of open files is {most}, and the server needs {_LEAST_FILES}: "
            "raise it (ulimit -Hn, LimitNOFILE= of systemd, docker run --ulimit nofile)"
        )


def refuse_beyond_loopback(address: str) -> None:
    """Raise UsageError if other machines could reach the address."""
    try:
        loopback = ipaddress.ip_address(address).is_loopback
    except ValueError:
        raise UsageError(f"--address {address!r}: give an IP address") from None
    if not loopback:
        raise UsageError(
            f"--address {address}: the embedded Triton 24.10 has known vulnerabilities "
            "(docs/deployment.md) and listens on loopback only; publish the gateway instead "
            "(--gateway-address), put the proxy in front of it, or "
            "accept the risk with --expose-unpatched-server"
        )

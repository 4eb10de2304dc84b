"""Where and what to serve, and what the machine must allow for it."""

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
"""Triton has about 70 files open at rest; the rest is for connections and for more cores."""


@dataclass(frozen=True)
class ServeOptions:
    """Where and what to serve. A port of 0 is replaced by a free one."""

    repository: Path | None
    """Triton's; None: what `to_serve` names is served instead."""
    address: str = "127.0.0.1"
    http_port: int = 8000
    grpc_port: int = 8001
    metrics_port: int = 8002
    expose_unpatched_server: bool = False
    start_timeout_s: float = 120.0
    log_verbose: bool = False
    config: str | None = None
    """Name of the configurations to use, of models that have them under `configs`."""
    more_models: tuple[str, ...] = ()
    """Models of the repository to load beside those that translate."""
    engine_timeout_s: float = 10.0
    """An engine or a Triton that gives no sign of life for so long is killed."""
    triton_growth_bytes: int = 1 << 30
    """Memory by which Triton may grow after its start. If it has grown by more, it is started again
    in the next pause, or at once if it has grown by twice as much."""
    grpc_connection_age_s: int | None = None
    """After which a gRPC connection takes no more requests; those in flight finish."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Of the engine's models; they come before those of their `config.pbtxt`."""
    to_serve: ModelsToServe = field(default_factory=ModelsToServe)
    """Bundles, if there is no repository, and the engine's other settings of models."""
    tracing: TraceOptions | None = None
    """Where spans go; None: nothing is traced."""

    @property
    def client_address(self) -> str:
        """Where this machine reaches the address, as part of a URL."""
        any_address = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
        address = any_address.get(self.address, self.address)
        return f"[{address}]" if ":" in address else address


def refuse_few_files() -> None:
    """Raise UsageError if the server could not open enough files."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < _LEAST_FILES:
        raise UsageError(
            f"the hard limit of open files is {most}, and the server needs {_LEAST_FILES}: "
            "raise it (ulimit -Hn, LimitNOFILE= of systemd, docker run --ulimit nofile)"
        )


def refuse_beyond_loopback(address: str) -> None:
    """Raise UsageError if others than this machine could reach the address."""
    try:
        loopback = ipaddress.ip_address(address).is_loopback
    except ValueError:
        raise UsageError(f"--address {address!r}: give an IP address") from None
    if not loopback:
        raise UsageError(
            f"--address {address}: the embedded Triton 24.10 has known vulnerabilities "
            "(docs/deployment.md) and listens on loopback only; put the proxy in front of it, "
            "or accept the risk with --expose-unpatched-server"
        )

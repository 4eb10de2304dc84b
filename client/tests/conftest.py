"""Fixtures with fake servers."""

from server_fixtures import (
    anyio_backend,
    authority,
    client_files,
    free_port,
    gateway_url,
    grpc_url,
    grpcs_url,
    http_connections,
    http_url,
    https_url,
    silent_address,
    slow,
    tls_url,
    triton_url,
    url,
    virtual_time,
)

__all__ = [
    "anyio_backend",
    "authority",
    "client_files",
    "free_port",
    "gateway_url",
    "grpc_url",
    "grpcs_url",
    "http_connections",
    "http_url",
    "https_url",
    "silent_address",
    "slow",
    "tls_url",
    "triton_url",
    "url",
    "virtual_time",
]

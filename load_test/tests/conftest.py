"""The client's fake servers, and its clock."""

from server_fixtures import (
    anyio_backend,
    authority,
    client_files,
    free_port,
    gateway_url,
    grpc_url,
    grpcs_url,
    http_url,
    https_url,
    tls_url,
    triton_url,
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
    "http_url",
    "https_url",
    "tls_url",
    "triton_url",
    "virtual_time",
]

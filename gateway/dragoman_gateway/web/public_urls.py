"""How people reach the gateway: what URLs in answers begin with."""

from __future__ import annotations

from urllib.parse import urlsplit

from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.web.requests import GatewayRequest


def public_url(request: GatewayRequest, settings: GatewaySettings) -> str:
    """The URL of the gateway, without a slash at its end: that of the settings, or as requested."""
    return (settings.public_url or str(request.base_url)).rstrip("/")


def public_path(request: GatewayRequest, settings: GatewaySettings) -> str:
    """The path of a request, as its client has it: behind the prefix, wherever that is from."""
    path: str = request.scope["path"]
    return urlsplit(public_url(request, settings)).path + path

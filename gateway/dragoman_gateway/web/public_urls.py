"""Public URLs of the gateway, for links in answers."""

from __future__ import annotations

from urllib.parse import urlsplit

from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.web.requests import GatewayRequest


def public_url(request: GatewayRequest, settings: GatewaySettings) -> str:
    """Returns the gateway's URL without a trailing slash, from the settings or the request."""
    return (settings.public_url or str(request.base_url)).rstrip("/")


def public_path(request: GatewayRequest, settings: GatewaySettings) -> str:
    """Returns the path of a request as its client sees it, including the prefix."""
    path: str = request.scope["path"]
    return urlsplit(public_url(request, settings)).path + path

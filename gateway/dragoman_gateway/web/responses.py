"""JSON answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from dragoman_gateway.core.errors import GatewayError, WrongMethod
from dragoman_gateway.web.requests import JSON


def json_response(
    body: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Returns an answer with a JSON body."""
    return Response(msgspec.json.encode(body), status, headers, JSON)


def error_headers(error: GatewayError) -> dict[str, str]:
    """Returns the headers of an error in any protocol: when to retry, and allowed methods."""
    headers = {}
    if error.retry_whole_s is not None:
        headers["Retry-After"] = str(error.retry_whole_s)
    if isinstance(error, WrongMethod):
        headers["Allow"] = ", ".join(error.allowed)
    return headers

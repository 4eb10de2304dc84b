"""Answers in JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from dragoman_gateway.core.errors import GatewayError, WrongMethod
from dragoman_gateway.web.requests import JSON


def json_response(
    body: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer in JSON, as UTF-8."""
    return Response(msgspec.json.encode(body), status, headers, JSON)


def error_headers(error: GatewayError) -> dict[str, str]:
    """Headers that go with an error whatever its shape: when to try again, allowed methods."""
    headers = {}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    if isinstance(error, WrongMethod):
        headers["Allow"] = ", ".join(error.allowed)
    return headers

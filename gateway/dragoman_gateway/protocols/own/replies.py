"""Answers of this API: JSON with the request's id, and errors in one format."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec
from starlette.responses import Response

from dragoman_gateway.core.errors import GatewayError, KeyMissing, WrongMethod
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.protocols.own.answers import error_answer
from dragoman_gateway.protocols.own.shapes import Refusal
from dragoman_gateway.web.requests import JSON, GatewayRequest, public_url
from dragoman_gateway.web.responses import error_headers

NO_STORE = {"cache-control": "no-store"}
"""Answers contain private texts, so no cache may store them."""


def reply(
    body: object, status: int = 200, headers: Mapping[str, str] = NO_STORE, media_type: str = JSON
) -> Response:
    """Returns an answer with a JSON body."""
    return Response(msgspec.json.encode(body), status, dict(headers), media_type)


def location_of(
    request: GatewayRequest, settings: GatewaySettings, created_id: str
) -> Mapping[str, str]:
    """Returns the headers of the answer to a request that has created something."""
    path = urlsplit(public_url(request, settings)).path + request.scope["path"]
    return {**NO_STORE, "location": f"{path}/{created_id}"}


def refusal_of(request: GatewayRequest, error: GatewayError) -> Refusal:
    """Returns an error in the format of this API."""
    return Refusal(error_answer(error), request.request_id)


def refuse(request: GatewayRequest, error: GatewayError) -> Response:
    """Returns the answer to a failed request.

    No endpoint has the method OPTIONS; it is answered with the methods of the path.
    """
    headers = {**NO_STORE, **error_headers(error)}
    if isinstance(error, WrongMethod):
        headers["Allow"] = ", ".join(_allowed(error.allowed))
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=headers)
    if isinstance(error, KeyMissing):
        headers["www-authenticate"] = "Bearer"
    return reply(refusal_of(request, error), error.status, headers)


def _allowed(methods: tuple[str, ...]) -> list[str]:
    head = {"HEAD"} if "GET" in methods else set()
    return sorted({*methods, *head, "OPTIONS"})

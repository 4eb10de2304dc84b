"""Requests that tests send over HTTP, and their answers."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

WAIT_S = 200
"""Bound of every wait for an event. No event takes that long; a test says nothing about times."""


@dataclass(frozen=True)
class Answer:
    """The response to an HTTP request, whatever its status.

    Attributes:
        status: of HTTP.
        headers: by names in lower case.
        body: complete.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, parsed as JSON."""
        return json.loads(self.body)

    @property
    def media_type(self) -> str:
        """The media type without parameters."""
        return self.headers.get("content-type", "").partition(";")[0]


def send(
    url: str,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    method: str | None = None,
    timeout_s: float = WAIT_S,
) -> Answer:
    """Send a request.

    Args:
        url: with its query.
        body: bytes; anything else is sent as JSON; None: there is none.
        headers: further ones, or another content type.
        method: of HTTP; by default GET, or POST with a body.
        timeout_s: for the response.
    """
    sent = {}
    if body is not None and not isinstance(body, bytes):
        body, sent = json.dumps(body).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(url, body, {**sent, **(headers or {})}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            return Answer(answer.status, _lower(answer.headers), answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, _lower(error.headers), error.read())


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def multipart(*fields: tuple[str, str | bytes, str | None]) -> tuple[bytes, dict[str, str]]:
    """A form, and the header with its content type.

    Args:
        fields: names, values, and names of files; None: it is not a file.
    """
    body = b""
    for name, value, file in fields:
        named = "" if file is None else f'; filename="{file}"'
        head = f'--x\r\nContent-Disposition: form-data; name="{name}"{named}\r\n\r\n'
        body += head.encode() + (value.encode() if isinstance(value, str) else value) + b"\r\n"
    return body + b"--x--\r\n", {"content-type": "multipart/form-data; boundary=x"}


def file_form(
    name: str, content: str | bytes, fields: Mapping[str, str]
) -> tuple[bytes, dict[str, str]]:
    """A form with fields and then a file, and the header with its content type."""
    texts = ((field, value, None) for field, value in fields.items())
    return multipart(*texts, ("file", content, name))

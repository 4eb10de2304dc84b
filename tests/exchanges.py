"""Forms that tests send to gateways, and their answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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

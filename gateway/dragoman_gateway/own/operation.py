"""What an operation of this API is: a method of a path, its handler and its description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from dragoman_gateway.web.endpoints import Handler
from dragoman_gateway.web.requests import JSON

PREFIX = "/api/v1"
EVENTS = "text/event-stream"
FILE = "application/octet-stream"

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


@dataclass(frozen=True)
class Parameter:
    """A parameter of the path or the query.

    Attributes:
        name: in the path or the query.
        help: what it is.
        example: a value.
        schema: of JSON Schema.
        in_query: whether it is in the query.
    """

    name: str
    help: str
    example: str
    schema: dict[str, Any]
    in_query: bool = False


@dataclass(frozen=True)
class Operation:
    """A method of a path.

    Attributes:
        name: for programs that are generated.
        method: of HTTP.
        path: below `PREFIX`.
        tag: its group.
        summary: what it does, in a line.
        handle: answers; None: another package does.
        answer: what it answers; None: nothing, or not JSON.
        status: of an answer.
        request: fields of the request; None: there is no body.
        model: whose options the request takes beside.
        example: a body.
        parameters: of the path and the query.
        media_types: of the answer.
        accepts: media types of the body.
        needs_key: whether a key is required, if the gateway requires keys.
        reads_body: see `Endpoint`.
        help: more than the summary, in Markdown.
    """

    name: str
    method: Method
    path: str
    tag: str
    summary: str
    handle: Handler | None = None
    answer: type[msgspec.Struct] | None = None
    status: int = 200
    request: type[msgspec.Struct] | None = None
    model: str | None = None
    example: Any = None
    parameters: tuple[Parameter, ...] = ()
    media_types: tuple[str, ...] = (JSON,)
    accepts: tuple[str, ...] = (JSON,)
    needs_key: bool = True
    reads_body: bool = False
    help: str = ""

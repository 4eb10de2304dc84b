"""Definition of an operation of this API: method, path, handler and description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from dragoman_gateway.web.endpoints import Handler
from dragoman_gateway.web.requests import JSON

PREFIX = "/api/v1"
EVENTS = "text/event-stream"
FILE = "application/octet-stream"


@dataclass(frozen=True)
class Parameter:
    """A parameter of the path or the query.

    Attributes:
        name: name in the path or the query.
        help: description.
        example: an example value.
        schema: JSON Schema of its value.
        in_query: whether it is in the query, else in the path.
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
        name: operation id, for generated clients.
        route: HTTP method, and path below `PREFIX`.
        summary: what it does, in one line.
        handle: the handler; None: it is in another package.
        tag: group of the operation.
        answer: type of the answer; None: empty, or not JSON.
        status: status of a successful answer.
        request: type of the body's own fields; None: no body.
        model: model whose options the body may have in addition.
        example: an example of a body.
        parameters: parameters of the path and the query.
        media_types: media types of the answer.
        accepts: media types of the body.
        file: name and content of the file in code samples of a form.
        needs_key: whether a key is required, if the gateway requires keys.
        reads_body: see `Endpoint`.
        help: details, in Markdown.
    """

    name: str
    route: str
    summary: str
    handle: Handler | None = None
    tag: str = ""
    answer: type[msgspec.Struct] | None = None
    status: int = 200
    request: type[msgspec.Struct] | None = None
    model: str | None = None
    example: Any = None
    parameters: tuple[Parameter, ...] = ()
    media_types: tuple[str, ...] = (JSON,)
    accepts: tuple[str, ...] = (JSON,)
    file: tuple[str, str] = ("letter.txt", "Good morning.")
    needs_key: bool = True
    reads_body: bool = False
    help: str = ""

    @property
    def method(self) -> str:
        """HTTP method."""
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        """Path below `PREFIX`."""
        return self.route.partition(" ")[2]

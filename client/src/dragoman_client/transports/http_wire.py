"""Requests and answers over HTTP: the JSON of Triton's generate extension.

Triton's `/infer` is not used: a request of 100 bytes to it can crash Triton 24.10, so proxies block
it.

Source: https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_generate.md
"""

from __future__ import annotations

import errno
import http
import json
import os
import re
from collections.abc import Mapping
from typing import Any

from dragoman_client.core.address import Address
from dragoman_client.core.errors import ServerError, from_status
from dragoman_client.core.request import ALWAYS, Part, microseconds
from dragoman_client.core.tensors import Values
from dragoman_client.core.trace_context import REQUEST_ID

JSON_HEADERS = {"content-type": "application/json"}
RETRY_AFTER = "Retry-After"
_SETTINGS = re.compile(r"\0\0.\x04|\\x00\\++x00(?:\\++x..|.)\\++x04", re.DOTALL)
"""How a gRPC server begins its answer: the HTTP/2 SETTINGS frame, raw or quoted in an exception."""
_OF_TRITON = frozenset(("id", "model_name", "model_version"))
"""Members of an answer that are not outputs."""


def generate_body(inputs: Mapping[str, Values], timeout_s: float) -> bytes:
    """Returns the body of a request.

    Args:
        inputs: see `build_inputs`.
        timeout_s: the server's deadline.

    Returns:
        A JSON object; a tensor with one element is a single value, another tensor a list.
    """
    values = {name: _plain(values) for name, values in inputs.items()}
    values["timeout"] = microseconds(timeout_s)
    if request_id := REQUEST_ID.get():
        values["id"] = request_id
    return json.dumps(values, ensure_ascii=False).encode()


def check_protocol(address: Address, error: Exception) -> None:
    """Check whether an answer that is not HTTP is gRPC.

    Args:
        address: address of the server.
        error: exception of `http.client` or aiohttp, which quotes the answer.

    Raises:
        ServerError: the answer is gRPC.
    """
    if _SETTINGS.search(str(error)):
        raise ServerError(
            f"{address.authority} speaks gRPC, not HTTP: write {address.url('grpc')}"
        ) from error


def failure_reason(error: Exception) -> str:
    """Returns why a connection failed, in the system's words if the server refused it."""
    if isinstance(error, OSError) and error.errno == errno.ECONNREFUSED:
        return os.strerror(errno.ECONNREFUSED)
    return str(error) or repr(error)


def read_answer(
    authority: str, status: int, retry_after: str | None, body: bytes
) -> dict[str, Values | None]:
    """Parse the outputs in an answer.

    Args:
        authority: host and port of the server, for messages.
        status: HTTP status of the answer.
        retry_after: its header `Retry-After`.
        body: its body.

    Returns:
        Elements by name; strings are UTF-8 bytes.

    Raises:
        TranslationError: the server refused the request, or the answer is not Triton's.
    """
    check_status(status, retry_after, body)
    try:
        answer = json.loads(body)
        return {name: column_of(value) for name, value in answer.items() if name not in _OF_TRITON}
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        raise ServerError(f"{authority}: not an answer of Triton: {error}") from error


def check_status(status: int, retry_after: str | None, body: bytes) -> None:
    """Raise the error of an answer whose status is not 200.

    Raises:
        TranslationError: the exception for the status, with the message in the body.
    """
    if status != http.HTTPStatus.OK:
        raise from_status(str(status), refusal_message(body), retry_after)


def event_part(line: bytes) -> Part | None:
    """Parse the outputs in a line of server-sent events, in the form of `translate`.

    Raises:
        TranslationError: see `read_event`.
    """
    values = read_event(line)
    if values is None:
        return None
    return {name: column_of(value) for name, value in values.items()}


def read_event(line: bytes) -> dict[str, Any] | None:
    """Parse the outputs in a line of server-sent events; None if the line has none.

    Raises:
        TranslationError: the event is an error, or not Triton's.
    """
    if not line.startswith(b"data:"):
        return None
    try:
        event = json.loads(line.removeprefix(b"data:"))
        if "error" in event:
            raise from_status(None, str(event["error"]))
        lacking = [name for name in ALWAYS if name not in event]
        if lacking:
            raise KeyError(lacking[0])
        return {name: value for name, value in event.items() if name not in _OF_TRITON}
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise ServerError(f"not an answer of Triton: {error!r}") from error


def read_ready(status: int, body: bytes) -> bool:
    """Whether a model is ready.

    Raises:
        TranslationError: something else answered, such as a proxy that requires a token.
    """
    if status == http.HTTPStatus.BAD_REQUEST:
        return False  # Triton's status for a model that is not ready
    check_status(status, None, body)
    return True


def refusal_message(body: bytes) -> str:
    """Returns the message in the body of an error: Triton's JSON, or the text of a proxy."""
    try:
        return str(json.loads(body.removeprefix(b"data:"))["error"])
    except (KeyError, TypeError, ValueError):
        return body[:200].decode("utf-8", "replace").strip()


def _plain(values: Values) -> Any:
    """Converts the elements of a tensor to a JSON value."""
    elements = [v.decode("utf-8") if isinstance(v, bytes) else v for v in values]
    return elements[0] if len(elements) == 1 else elements


def column_of(value: Any) -> Values:
    """Returns the elements of a tensor of a JSON value or a list of them."""
    values = value if isinstance(value, list) else [value]
    return [v.encode("utf-8") if isinstance(v, str) else v for v in values]

"""What requests and answers look like over HTTP: JSON, by Triton's generate extension.

Triton's other way over HTTP, `/infer`, is not used: a request of 100 bytes to it ends Triton 24.10,
so that proxies refuse it.

Source: https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_generate.md
"""

from __future__ import annotations

import http
import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from dragoman_client.address import Address
from dragoman_client.errors import ServerError, from_status
from dragoman_client.request import ALWAYS, Part, microseconds
from dragoman_client.tensors import Array

JSON_HEADERS = {"content-type": "application/json"}
RETRY_AFTER = "Retry-After"
_SETTINGS = re.compile(r"\0\0.\x04|\\+x00\\+x00(\\+x..|.)\\+x04", re.DOTALL)
"""How a server of gRPC begins: HTTP/2's frame SETTINGS, as it is or as exceptions quote it."""
_OF_TRITON = frozenset(("id", "model_name", "model_version"))
"""What stands in an answer beside the outputs."""


def generate_body(inputs: Mapping[str, Array], timeout_s: float) -> bytes:
    """The body of a request.

    Args:
        inputs: tensors by name, [1, values].
        timeout_s: the server's deadline.

    Returns:
        A JSON object: a value where a tensor has one, else a list.
    """
    values = {name: _plain(tensor.reshape(-1).tolist()) for name, tensor in inputs.items()}
    values["timeout"] = microseconds(timeout_s)
    return json.dumps(values, ensure_ascii=False).encode()


def check_protocol(address: Address, error: Exception) -> None:
    """See that an answer that is no HTTP is not gRPC.

    Args:
        address: of the server.
        error: of `http.client` or aiohttp, which quotes the answer.

    Raises:
        ServerError: it is.
    """
    if _SETTINGS.search(str(error)):
        raise ServerError(
            f"{address.authority} speaks gRPC, not HTTP: write {address.url('grpc')}"
        ) from error


def read_answer(
    authority: str, status: int, retry_after: str | None, body: bytes
) -> dict[str, Array | None]:
    """The outputs in an answer.

    Args:
        authority: of the server, for messages.
        status: of the answer.
        retry_after: the header of that name.
        body: its body.

    Returns:
        Objects [1, values] by name; strings are UTF-8 bytes.

    Raises:
        TranslationError: the server refused, or it is no answer of Triton's.
    """
    check_status(status, retry_after, body)
    try:
        answer = json.loads(body)
        return {name: _column(value) for name, value in answer.items() if name not in _OF_TRITON}
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        raise ServerError(f"{authority}: not an answer of Triton: {error}") from error


def check_status(status: int, retry_after: str | None, body: bytes) -> None:
    """Refuse an answer with another status than 200.

    Raises:
        TranslationError: what the status stands for, with the message in the body.
    """
    if status != http.HTTPStatus.OK:
        raise from_status(str(status), refusal_message(body), retry_after)


def event_part(line: bytes) -> Part | None:
    """The outputs in a line of server-sent events, as `translate` would answer them.

    Raises:
        TranslationError: see `read_event`.
    """
    values = read_event(line)
    if values is None:
        return None
    return {name: _column(value) for name, value in values.items()}


def read_event(line: bytes) -> dict[str, Any] | None:
    """The outputs in a line of server-sent events; None if it brings nothing.

    Raises:
        TranslationError: it is an error, or not an answer of Triton.
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
        TranslationError: somebody else answered, such as a proxy that wants a token.
    """
    if status == http.HTTPStatus.BAD_REQUEST:
        return False  # Triton's answer for a model that is not
    check_status(status, None, body)
    return True


def refusal_message(body: bytes) -> str:
    """The message in the body of a refusal: Triton's JSON, or the text of a proxy."""
    try:
        return str(json.loads(body.removeprefix(b"data:"))["error"])
    except (KeyError, TypeError, ValueError):
        return body[:200].decode("utf-8", "replace").strip()


def _plain(values: list[Any]) -> Any:
    """What stands in JSON for the elements of a tensor."""
    found = [v.decode("utf-8") if isinstance(v, bytes) else v for v in values]
    return found[0] if len(found) == 1 else found


def _column(value: Any) -> Array:
    """A tensor [1, values] from JSON, where one element has no list around it."""
    values = value if isinstance(value, list) else [value]
    column = np.empty((1, len(values)), np.object_)
    column[0, :] = [v.encode("utf-8") if isinstance(v, str) else v for v in values]
    return column

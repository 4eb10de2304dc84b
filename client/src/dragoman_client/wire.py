"""What requests and answers look like to tritonclient, whoever carries them.

Shared by the transports that wait and those of asyncio.
"""

from __future__ import annotations

import gzip
import http
import json
import os
import struct
import zlib
from collections.abc import Mapping
from typing import Any, Literal

from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from dragoman_client.access import Access, FilePath
from dragoman_client.address import Address
from dragoman_client.errors import ServerError, from_status
from dragoman_client.options import ASSESSMENTS, Array
from dragoman_client.request import OUTPUTS, SCORES

_MAX_INT32 = 2**31 - 1
HEADER_LENGTH = "Inference-Header-Content-Length"
"""Header with the length of the JSON part of a body."""

Compression = Literal["gzip", "deflate"]
COMPRESSIONS = ("gzip", "deflate")
"""What Triton understands over both protocols."""

CHANNEL_ARGUMENTS = [
    # These replace tritonclient's own, so its unlimited message sizes are said again.
    ("grpc.max_send_message_length", _MAX_INT32),
    ("grpc.max_receive_message_length", _MAX_INT32),
    # By default gRPC waits up to two minutes before it looks again for a server that was away.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


_DAMAGED = (
    *(AttributeError, IndexError, KeyError, TypeError, ValueError, struct.error),
    InferenceServerException,
)
"""What tritonclient raises over an answer that is damaged."""


def tensors(kind: Any, inputs: Mapping[str, Array]) -> list[Any]:
    """Arrays as tritonclient's input tensors; gRPC and HTTP have each their own kind."""
    return [
        kind(name, list(values.shape), np_to_triton_dtype(values.dtype)).set_data_from_numpy(values)
        for name, values in inputs.items()
    ]


def arrays(result: Any) -> dict[str, Array | None]:
    """The outputs of an answer; None for one that is not in it.

    Raises:
        ServerError: they are not what they say they are.
    """
    try:
        return {name: result.as_numpy(name) for name in (*OUTPUTS, SCORES, *ASSESSMENTS)}
    except _DAMAGED as error:
        raise ServerError(f"not an answer of Triton: {error}") from error


def microseconds(seconds: float) -> int:
    """As Triton counts a deadline, which this client sends along: then the server gives up, too."""
    return max(1, int(seconds * 1e6))


def grpc_arguments(address: Address, access: Access) -> dict[str, Any]:
    """What tritonclient's gRPC clients are made with.

    Raises:
        ValueError: a file of `access` does not hold what it should.
    """
    if address.tls:
        access.tls_context()  # gRPC would say that a file is wrong at the first request
    return {
        "url": address.authority,
        "ssl": address.tls,
        "root_certificates": _path(access.ca_file),
        "certificate_chain": _path(access.certificate_file),
        "private_key": _path(access.key_file),
        "channel_args": CHANNEL_ARGUMENTS,
    }


def http_request(
    inputs: Mapping[str, Array], timeout_s: float, compression: Compression | None
) -> tuple[bytes, dict[str, str]]:
    """Body and headers of a request over HTTP."""
    from tritonclient.http import InferenceServerClient, InferInput

    body, header_bytes = InferenceServerClient.generate_request_body(
        tensors(InferInput, inputs), timeout=microseconds(timeout_s)
    )
    headers = {"Content-Type": "application/octet-stream", HEADER_LENGTH: str(header_bytes)}
    if compression is None:
        return body, headers
    packed = gzip.compress(body) if compression == "gzip" else zlib.compress(body)
    return packed, {**headers, "Content-Encoding": compression, "Accept-Encoding": compression}


def unpacked(body: bytes, encoding: str | None) -> bytes:
    """A body without the compression that its header names.

    Raises:
        ServerError: it is damaged, or compressed in another way.
    """
    try:
        if encoding in (None, "", "identity"):
            return body
        if encoding == "gzip":
            return gzip.decompress(body)
        if encoding == "deflate":
            return zlib.decompress(body)
    except (OSError, EOFError, zlib.error) as error:
        raise ServerError(f"an answer in {encoding} is damaged: {error}") from error
    raise ServerError(f"an answer in {encoding!r}, which was not asked for")


def http_answer(
    authority: str, status: int, header_bytes: str | None, body: bytes
) -> dict[str, Array | None]:
    """What was answered over HTTP.

    Args:
        authority: of the server, for messages.
        status: of the answer.
        header_bytes: its header `HEADER_LENGTH`.
        body: its body.

    Raises:
        TranslationError: the server refused, or it is no answer of Triton's.
    """
    from tritonclient.http import InferenceServerClient

    if status != http.HTTPStatus.OK:
        raise from_status(str(status), refusal_message(body))
    try:
        return arrays(
            InferenceServerClient.parse_response_body(
                body, header_length=int(header_bytes) if header_bytes else None
            )
        )
    except _DAMAGED as error:
        raise ServerError(f"{authority}: not an answer of Triton: {error}") from error


def http_ready(status: int, body: bytes) -> bool:
    """What was answered over HTTP to the question whether a model is ready.

    Raises:
        TranslationError: somebody else answered, such as a proxy that wants a token.
    """
    if status in (http.HTTPStatus.OK, http.HTTPStatus.BAD_REQUEST):
        return status == http.HTTPStatus.OK  # Triton says so with 400
    raise from_status(str(status), refusal_message(body))


def grpc_config(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """A model's configuration in what tritonclient answers.

    Raises:
        ServerError: it holds none.
    """
    return _config(answer.get("config"))


def http_config(authority: str, status: int, body: bytes) -> Mapping[str, Any]:
    """A model's configuration in what was answered over HTTP.

    Args:
        authority: of the server, for messages.
        status: of the answer.
        body: its body.

    Raises:
        TranslationError: the server refused, or it holds none.
    """
    if status != http.HTTPStatus.OK:
        raise from_status(str(status), refusal_message(body))
    try:
        return _config(json.loads(body))
    except ValueError as error:
        raise ServerError(f"{authority}: not an answer of Triton: {error}") from error


def _config(found: Any) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise ServerError("the answer holds no configuration of a model")
    return found


def _path(file: FilePath | None) -> str | None:
    return None if file is None else os.fspath(file)


def refusal_message(answer: bytes) -> str:
    """What the server said in the body of a refusal: Triton's JSON, or the text of a proxy."""
    try:
        return str(json.loads(answer.removeprefix(b"data:"))["error"])
    except (KeyError, TypeError, ValueError):
        return answer[:200].decode("utf-8", "replace").strip()

"""What requests and answers look like to tritonclient, whoever carries them.

Shared by the transports that wait and those of asyncio.
"""

from __future__ import annotations

import http
import json
import os
import struct
from collections.abc import Mapping
from typing import Any

from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from dragoman_client.access import Access, FilePath
from dragoman_client.address import Address
from dragoman_client.errors import ServerError, from_status
from dragoman_client.request import OUTPUTS, Array

_MAX_INT32 = 2**31 - 1
HEADER_LENGTH = "Inference-Header-Content-Length"
"""Header with the length of the JSON part of a body."""

_CHANNEL_ARGUMENTS = [
    # These replace tritonclient's own, so its unlimited message sizes are said again.
    ("grpc.max_send_message_length", _MAX_INT32),
    ("grpc.max_receive_message_length", _MAX_INT32),
    # By default gRPC waits up to two minutes before it looks again for a server that was away.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


def tensors(kind: Any, inputs: Mapping[str, Array]) -> list[Any]:
    """Arrays as tritonclient's input tensors; gRPC and HTTP have each their own kind."""
    return [
        kind(name, list(values.shape), np_to_triton_dtype(values.dtype)).set_data_from_numpy(values)
        for name, values in inputs.items()
    ]


def arrays(result: Any) -> dict[str, Array | None]:
    """The outputs of an answer; None for one that is not in it."""
    return {name: result.as_numpy(name) for name in OUTPUTS}


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
        "channel_args": _CHANNEL_ARGUMENTS,
    }


def http_request(inputs: Mapping[str, Array], timeout_s: float) -> tuple[bytes, dict[str, str]]:
    """Body and headers of a request over HTTP."""
    from tritonclient.http import InferenceServerClient, InferInput

    body, header_bytes = InferenceServerClient.generate_request_body(
        tensors(InferInput, inputs), timeout=microseconds(timeout_s)
    )
    return body, {
        "Content-Type": "application/octet-stream",
        HEADER_LENGTH: str(header_bytes),
    }


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
    except (InferenceServerException, KeyError, TypeError, ValueError, struct.error) as error:
        raise ServerError(f"{authority}: not an answer of Triton: {error}") from error


def _path(file: FilePath | None) -> str | None:
    return None if file is None else os.fspath(file)


def refusal_message(answer: bytes) -> str:
    """What the server said in the body of a refusal: Triton's JSON, or the text of a proxy."""
    try:
        return str(json.loads(answer.removeprefix(b"data:"))["error"])
    except (KeyError, TypeError, ValueError):
        return answer[:200].decode("utf-8", "replace").strip()

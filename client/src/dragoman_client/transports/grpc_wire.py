"""Requests and answers as Triton's gRPC messages.

gRPC is imported only where it is needed: the import is slow, and a client over HTTP does not need
it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tritonclient.utils import InferenceServerException, np_to_triton_dtype, triton_to_np_dtype

from dragoman_client.core.access import Access, FilePath
from dragoman_client.core.address import Address
from dragoman_client.core.errors import (
    ServerError,
    ServerUnavailable,
    TranslationError,
    from_status,
)
from dragoman_client.core.request import Part, microseconds
from dragoman_client.core.tensors import Array
from dragoman_client.core.trace_context import REQUEST_ID

_LENGTH = struct.Struct("<I")
_MAX_INT32 = 2**31 - 1
_CHANNEL_ARGUMENTS = [
    ("grpc.max_send_message_length", _MAX_INT32),
    ("grpc.max_receive_message_length", _MAX_INT32),
    # By default gRPC waits up to two minutes before it tries to reconnect to a server.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]
_NOT_WRITTEN = "Internal error from Core"
"""grpc.aio's message if the server ends a call while the client is writing the request; the
server's own status is lost then."""
_NO_GRPC = re.compile("failed to connect .*(Socket closed|Failed parsing HTTP/2|reset by peer)")
"""gRPC's message if the server at the address does not speak gRPC."""
_DAMAGED = (
    *(AttributeError, IndexError, KeyError, TypeError, ValueError, struct.error),
    InferenceServerException,
)
"""Exceptions that tritonclient raises for a malformed answer."""


def open_channel(
    grpc: Any, address: Address, access: Access, more: tuple[tuple[str, int], ...] = ()
) -> Any:
    """Open a channel, which connects with its first request.

    Args:
        grpc: the module `grpc` or `grpc.aio`.
        address: address of the server.
        access: the client's credentials.
        more: additional arguments of the channel.

    Raises:
        ValueError: a file of `access` has the wrong content.
    """
    arguments = [*_CHANNEL_ARGUMENTS, *more]
    if not address.tls:
        return grpc.insecure_channel(address.authority, arguments)
    import grpc as library

    access.tls_context()  # checks the files: gRPC would do so only at the first request
    credentials = library.ssl_channel_credentials(
        root_certificates=_read(access.ca_file),
        private_key=_read(access.key_file),
        certificate_chain=_read(access.certificate_file),
    )
    return grpc.secure_channel(address.authority, credentials, arguments)


def compression_of(name: str | None) -> Any:
    """Returns gRPC's constant for "gzip" or "deflate"."""
    import grpc

    kinds = {"gzip": grpc.Compression.Gzip, "deflate": grpc.Compression.Deflate}
    return kinds[name] if name else None


def infer_request(model: str, inputs: Mapping[str, Array], timeout_s: float) -> Any:
    """Returns a request message with tensors and the server's deadline."""
    from tritonclient.grpc import service_pb2

    request = service_pb2.ModelInferRequest(model_name=model, id=REQUEST_ID.get())
    for name, values in inputs.items():
        datatype = np_to_triton_dtype(values.dtype)
        request.inputs.add(name=name, datatype=datatype, shape=values.shape)
        request.raw_input_contents.append(_raw(values))
    request.parameters["timeout"].int64_param = microseconds(timeout_s)
    return request


def read_response(response: Any) -> dict[str, Array | None]:
    """Parse the outputs of an answer.

    Raises:
        ServerError: the outputs do not have their declared type or shape.
    """
    try:
        raw = response.raw_output_contents
        if len(raw) != len(response.outputs):
            return _read_contents(response)
        return {
            output.name: _array(output.datatype, tuple(output.shape), content)
            for output, content in zip(response.outputs, raw, strict=True)
        }
    except _DAMAGED as error:
        raise ServerError(f"not an answer of Triton: {error}") from error


def stream_request(model: str, inputs: Mapping[str, Array], timeout_s: float) -> Any:
    """`infer_request` for a stream, which takes tensors of shape [N] instead of [1, N]."""
    return infer_request(model, {name: v[0] for name, v in inputs.items()}, timeout_s)


def read_stream_response(message: Any) -> Part:
    """Parse a message of a stream; outputs of shape [1] become [1, 1], as from `translate`.

    Raises:
        TranslationError: the message is an error or malformed.
    """
    if message.error_message:
        raise from_status(None, message.error_message)
    outputs = read_response(message.infer_response)
    return {name: None if v is None else v.reshape(1, -1) for name, v in outputs.items()}


def call_error(address: Address, error: Any) -> TranslationError:
    """Returns the client's exception for a failed call.

    Args:
        address: address of the server.
        error: `grpc.RpcError` of a call, or `grpc.aio.AioRpcError`.
    """
    message = error.details()
    if message == _NOT_WRITTEN:
        authority = address.url("grpc")
        return ServerUnavailable(f"{authority}: the server ended the call while it was being sent")
    if _NO_GRPC.match(message or ""):
        message += f": if this is its port for HTTP, write {address.url('http')}"
    return from_status(str(error.code()), message)


def stream_error(address: Address, error: Any) -> TranslationError:
    """`call_error` for a stream; proxies may block streams, since they can crash Triton 24.10."""
    if error.code().name != "UNIMPLEMENTED":
        return call_error(address, error)
    return ServerError(
        f"{address.url('grpc')} has no streams over gRPC: for translate_stream use "
        f"{address.url('http')}"
    )


def _raw(values: Array) -> bytes:
    """Serializes the elements in Triton's format: each text is preceded by its length."""
    if values.dtype != object:
        return values.tobytes()
    parts: list[bytes] = []
    for text in values.reshape(-1).tolist():
        parts += (_LENGTH.pack(len(text)), text)
    return b"".join(parts)


def _array(datatype: str, shape: tuple[int, ...], content: bytes) -> Array:
    """The inverse of `_raw`."""
    if datatype != "BYTES":
        return np.frombuffer(content, triton_to_np_dtype(datatype)).reshape(shape)
    texts: list[bytes] = []
    begin = 0
    while begin < len(content):
        (length,) = _LENGTH.unpack_from(content, begin)
        begin += _LENGTH.size
        texts.append(content[begin : begin + length])
        if len(texts[-1]) != length:
            raise ValueError(f"a text of {length} bytes ends after {len(texts[-1])}")
        begin += length
    values = np.empty(len(texts), np.object_)
    values[:] = texts
    return values.reshape(shape)


def _read_contents(response: Any) -> dict[str, Array | None]:
    """Parse an answer that has its outputs as lists, not as raw bytes."""
    from tritonclient.grpc import InferResult

    result = InferResult(response)
    return {output.name: result.as_numpy(output.name) for output in response.outputs}


def _read(file: FilePath | None) -> bytes | None:
    return None if file is None else Path(file).read_bytes()

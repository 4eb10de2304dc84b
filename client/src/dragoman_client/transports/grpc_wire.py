"""Requests and answers as Triton's gRPC messages.

gRPC is imported only where it is needed: the import is slow, and a client over HTTP does not need
it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dragoman_options.frames import DataType, Tensor

from dragoman_client.core.access import Access, FilePath
from dragoman_client.core.address import Address
from dragoman_client.core.errors import (
    ServerError,
    ServerUnavailable,
    TranslationError,
    from_status,
)
from dragoman_client.core.request import Part, microseconds
from dragoman_client.core.tensors import Values, input_tensor
from dragoman_client.core.trace_context import REQUEST_ID

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
_DAMAGED = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""Exceptions that a malformed answer raises."""


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


def infer_request(
    model: str, inputs: Mapping[str, Values], timeout_s: float, *, is_flat: bool = False
) -> Any:
    """Returns a request message with tensors and the server's deadline.

    Args:
        model: name of the model.
        inputs: see `build_inputs`.
        timeout_s: the deadline.
        is_flat: whether the tensors have the shape [N] instead of [1, N].
    """
    from tritonclient.grpc import service_pb2

    request = service_pb2.ModelInferRequest(model_name=model, id=REQUEST_ID.get())
    for name, values in inputs.items():
        tensor = input_tensor(name, values, is_flat=is_flat)
        datatype = DataType(tensor.datatype).name
        request.inputs.add(name=name, datatype=datatype, shape=tensor.shape)
        request.raw_input_contents.append(tensor.data)
    request.parameters["timeout"].int64_param = microseconds(timeout_s)
    return request


def read_response(response: Any) -> dict[str, Values | None]:
    """Parse the outputs of an answer.

    Raises:
        ServerError: the outputs do not have their declared type or shape.
    """
    try:
        raw = response.raw_output_contents
        if len(raw) != len(response.outputs):
            return _read_contents(response)
        return {
            output.name: _values(output, content)
            for output, content in zip(response.outputs, raw, strict=True)
        }
    except _DAMAGED as error:
        raise ServerError(f"not an answer of Triton: {error}") from error


def stream_request(model: str, inputs: Mapping[str, Values], timeout_s: float) -> Any:
    """`infer_request` for a stream, which takes tensors of shape [N] instead of [1, N]."""
    return infer_request(model, inputs, timeout_s, is_flat=True)


def read_stream_response(message: Any) -> Part:
    """Parse a message of a stream.

    Raises:
        TranslationError: the message is an error or malformed.
    """
    if message.error_message:
        raise from_status(None, message.error_message)
    return read_response(message.infer_response)


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


def _values(output: Any, content: bytes) -> Values:
    """The elements of an output."""
    values = Tensor(output.name, DataType[output.datatype], (), content).values
    if math.prod(output.shape) != len(values):
        raise ValueError(f"{output.name} has {len(values)} elements, not {list(output.shape)}")
    return values


def _read_contents(response: Any) -> dict[str, Values | None]:
    """Parse an answer that has its outputs as lists, not as raw bytes."""
    from tritonclient.grpc import InferResult
    from tritonclient.utils import InferenceServerException

    result = InferResult(response)
    try:
        arrays = {output.name: result.as_numpy(output.name) for output in response.outputs}
    except InferenceServerException as error:
        raise ValueError(error) from error
    return {name: None if v is None else v.reshape(-1).tolist() for name, v in arrays.items()}


def _read(file: FilePath | None) -> bytes | None:
    return None if file is None else Path(file).read_bytes()

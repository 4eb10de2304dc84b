"""Requests and answers as frames of the engine's socket."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from dragoman_options.client_frames import pack_request, request_of
from dragoman_options.frames import MOST_BYTES, Answer, DataType, ErrorCode, Failure, Tensor
from dragoman_options.refusal import Refusal
from dragoman_options.table import INFO, OUTPUTS

from dragoman_client.errors import InvalidRequest, ServerError, TranslationError, from_status
from dragoman_client.request import microseconds
from dragoman_client.tensors import Array
from dragoman_client.trace_context import REQUEST_ID, trace_headers

_DATATYPES = {
    np.dtype(np.bool_): DataType.BOOL,
    np.dtype(np.int32): DataType.INT32,
    np.dtype(np.int64): DataType.INT64,
    np.dtype(np.float32): DataType.FP32,
    np.dtype(np.object_): DataType.BYTES,
}
_DTYPES = {theirs: ours for ours, theirs in _DATATYPES.items()}
_OUTPUTS = tuple(OUTPUTS)
_REFUSED = "INVALID_ARGUMENT: "
"""How the message of a refused stream begins: Triton has no status in streams."""


def request_frame(number: int, model: str, inputs: Mapping[str, Array], timeout_s: float) -> bytes:
    """Returns the frame of a request, with the id and the trace context of the current task.

    Raises:
        InvalidRequest: the frame is too large.
    """
    tensors = [
        Tensor.of(name, _DATATYPES[array.dtype], array.shape, array.reshape(-1).tolist())
        for name, array in inputs.items()
    ]
    outputs = (INFO,) if model == INFO else _OUTPUTS
    request = request_of(number, microseconds(timeout_s), {}, outputs, tensors)
    request.id = REQUEST_ID.get()
    if trace := trace_headers():
        request.trace = json.dumps(trace)
    frame = pack_request(request)
    if len(frame) > MOST_BYTES:
        message = f"the request is larger than {MOST_BYTES >> 20} MiB: send fewer texts in it"
        raise InvalidRequest(message, "too_large")
    return frame


def read_answer(answer: Answer) -> dict[str, Array | None]:
    """Returns the outputs in an answer.

    Raises:
        ServerError: a tensor is damaged.
    """
    try:
        return {tensor.name: _array(tensor) for tensor in answer.outputs}
    except (KeyError, ValueError) as error:
        raise ServerError(f"the engine's answer is damaged: {error}") from error


def merged(earlier: Answer, later: Answer) -> Answer:
    """Returns one part of a stream for two consecutive ones.

    The outputs are those of the later part, but `delta` is the text that both add.
    """
    begun = next((one.values for one in earlier.outputs if one.name == "delta"), [b""])
    outputs = tuple(
        Tensor.of(
            *(one.name, DataType.BYTES, one.shape),
            [first + second for first, second in zip(begun, one.values, strict=True)],
        )
        if one.name == "delta"
        else one
        for one in later.outputs
    )
    return Answer(later.number, outputs, later.last)


def error_of(failure: Failure) -> TranslationError:
    """Returns the client's exception for a failed request."""
    if failure.code != ErrorCode.INVALID_ARG:
        return from_status(None, failure.message)  # the message begins with the status
    fields = json.loads(failure.details or "{}")
    return InvalidRequest(*Refusal.with_fields(failure.message.removeprefix(_REFUSED), fields))


def _array(tensor: Tensor) -> Array:
    values: list[Any] = tensor.values
    return np.array(values, _DTYPES[DataType(tensor.datatype)]).reshape(tensor.shape)

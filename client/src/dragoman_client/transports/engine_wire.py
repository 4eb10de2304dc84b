"""Requests and answers as frames of the engine's socket."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from operator import add
from typing import Any

import numpy as np
from dragoman_options.client_frames import TEXTS, pack_options, pack_request
from dragoman_options.frames import (
    MOST_BYTES,
    Answer,
    DataType,
    ErrorCode,
    Failure,
    Request,
    RequestOptions,
    Tensor,
)
from dragoman_options.refusal import Refusal
from dragoman_options.table import INFO, OUTPUTS

from dragoman_client.core.errors import InvalidRequest, ServerError, TranslationError, from_status
from dragoman_client.core.request import microseconds
from dragoman_client.core.tensors import TYPES, Array
from dragoman_client.core.trace_context import REQUEST_ID, trace_headers

_DATATYPES: dict[np.dtype[Any], DataType] = {
    np.dtype(kind): DataType[name] for name, kind in TYPES.items()
}
_DTYPES: dict[int, np.dtype[Any]] = {theirs: ours for ours, theirs in _DATATYPES.items()}
_OUTPUTS = tuple(OUTPUTS)
_SHORT = 50
"""Characters of an option that is cached when it is packed."""
_Given = tuple[str, np.dtype[Any], tuple[int, ...], tuple[Any, ...]]
"""An input: name, type, shape, values."""
_REFUSED = "INVALID_ARGUMENT: "
"""How the message of a refused stream begins: Triton has no status in streams."""


def request_frame(number: int, model: str, inputs: Mapping[str, Array], timeout_s: float) -> bytes:
    """Returns the frame of a request, with the id and the trace context of the current task.

    Raises:
        InvalidRequest: the frame is too large.
    """
    texts: list[Tensor] = []
    options: list[_Given] = []
    for name, array in inputs.items():
        values = array.reshape(-1).tolist()
        if name in TEXTS:
            texts.append(Tensor.of(name, _DATATYPES[array.dtype], array.shape, values))
        else:
            options.append((name, array.dtype, array.shape, tuple(values)))
    trace = trace_headers()
    request = Request(
        number,
        microseconds(timeout_s),
        _packed(model, tuple(options)),
        tuple(texts),
        json.dumps(trace) if trace else "",
        REQUEST_ID.get(),
    )
    frame = pack_request(request)
    if len(frame) > MOST_BYTES:
        message = f"the request is larger than {MOST_BYTES >> 20} MiB: send fewer texts in it"
        raise InvalidRequest(message, "too_large")
    return frame


def _packed(model: str, options: tuple[_Given, ...]) -> bytes:
    """Packs options; clients seldom vary them, so short ones are cached."""
    for *_, values in options:
        if len(values) != 1 or (type(values[0]) is bytes and len(values[0]) > _SHORT):
            return _pack.__wrapped__(model, options)
    return _pack(model, options)


@functools.lru_cache(maxsize=256)
def _pack(model: str, options: tuple[_Given, ...]) -> bytes:
    outputs = (INFO,) if model == INFO else _OUTPUTS
    tensors = tuple(
        Tensor.of(name, _DATATYPES[dtype], shape, values) for name, dtype, shape, values in options
    )
    return pack_options(RequestOptions({}, outputs, tensors))


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
    begun = next((output.values for output in earlier.outputs if output.name == "delta"), [b""])
    outputs = tuple(
        Tensor.of(output.name, DataType.BYTES, output.shape, list(map(add, begun, output.values)))
        if output.name == "delta"
        else output
        for output in later.outputs
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
    return np.array(values, _DTYPES[tensor.datatype]).reshape(tensor.shape)

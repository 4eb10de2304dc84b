"""Requests and answers as frames of the engine's socket."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from operator import add
from typing import Any

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
from dragoman_client.core.tensors import Values, input_tensor
from dragoman_client.core.trace_context import REQUEST_ID, trace_headers

_OUTPUTS = tuple(OUTPUTS)
_SHORT = 50
"""Characters of an option that is cached when it is packed."""
_Given = tuple[str, tuple[Any, ...]]
"""Name and values of an input."""
_REFUSED = "INVALID_ARGUMENT: "
"""How the message of a refused stream begins: Triton has no status in streams."""


def request_frame(number: int, model: str, inputs: Mapping[str, Values], timeout_s: float) -> bytes:
    """Returns the frame of a request, with the id and the trace context of the current task.

    Raises:
        InvalidRequest: the frame is too large.
    """
    texts = tuple([input_tensor(name, inputs[name]) for name in TEXTS if name in inputs])
    options = tuple([(name, tuple(v)) for name, v in inputs.items() if name not in TEXTS])
    trace = trace_headers()
    request = Request(
        number,
        microseconds(timeout_s),
        _packed(model, options),
        texts,
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
    for _, values in options:
        if len(values) != 1 or (type(values[0]) is bytes and len(values[0]) > _SHORT):
            return _pack.__wrapped__(model, options)
    return _pack(model, options)


@functools.lru_cache(maxsize=256)
def _pack(model: str, options: tuple[_Given, ...]) -> bytes:
    outputs = (INFO,) if model == INFO else _OUTPUTS
    tensors = tuple(input_tensor(name, values) for name, values in options)
    return pack_options(RequestOptions({}, outputs, tensors))


def read_answer(answer: Answer) -> dict[str, Values | None]:
    """Returns the outputs in an answer.

    Raises:
        ServerError: a tensor is damaged.
    """
    try:
        return {tensor.name: tensor.values for tensor in answer.outputs}
    except ValueError as error:
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

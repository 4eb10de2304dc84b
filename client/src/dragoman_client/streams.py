"""Answers that come in parts, over both protocols.

Knows the wire of the model `translate_stream`; must not know what its tensors mean beyond their
names.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import time
from collections.abc import Generator, Mapping
from typing import Any

import numpy as np
from tritonclient.utils import InferenceServerException

from dragoman_client.errors import DeadlineExceeded, ServerError, from_status
from dragoman_client.options import Array
from dragoman_client.request import OUTPUTS, STREAM_MODEL
from dragoman_client.wire import Compression, arrays, microseconds

Part = Mapping[str, Array | None]
"""Outputs by name, each of shape [1, 1]."""

ENDED_EARLY = "the answer ended before its last part"
_LAST = ("stop", "length")
_GRACE_S = 1.0
"""For gRPC to say by itself that time is over."""


def as_stream_inputs(inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Tensors of `translate` [1, N] as `translate_stream` takes them, [N]."""
    return {name: values[0] for name, values in inputs.items()}


def grpc_parts(
    client: Any,
    tensors: list[Any],
    timeout_s: float,
    headers: Mapping[str, str],
    compression: Compression | None,
) -> Generator[Part, None, None]:
    """The parts of an answer over gRPC.

    Args:
        client: tritonclient's, which holds one stream; it is closed afterwards.
        tensors: its inputs.
        timeout_s: for the whole stream.
        headers: sent along.
        compression: of what is sent.

    Raises:
        TranslationError: it went wrong, before the first part or later.
    """
    came: queue.SimpleQueue[tuple[Any, InferenceServerException | None]] = queue.SimpleQueue()
    try:
        client.start_stream(
            lambda result, error: came.put((result, error)),
            stream_timeout=timeout_s,
            compression_algorithm=compression,
            headers=headers,  # not `triton_grpc_error`: an error would end Triton 24.10 itself
        )
        with contextlib.suppress(InferenceServerException):  # it has ended, and has said why
            client.async_stream_infer(STREAM_MODEL, tensors, timeout=microseconds(timeout_s))
        deadline_s = time.monotonic() + timeout_s + _GRACE_S
        while True:
            result, error = _next(came, deadline_s)
            if error is not None:
                raise from_status(error.status(), error.message()) from error
            part = stream_part(result)
            yield part
            if is_last(part):
                return
    finally:
        client.stop_stream(cancel_requests=True)
        client.close()


def stream_part(result: Any) -> Part:
    """A message of the stream, whose outputs are [1], as `translate` would answer it."""
    found = arrays(result)
    return {name: None if v is None else v.reshape(1, -1) for name, v in found.items()}


def _next(came: queue.SimpleQueue[Any], deadline_s: float) -> Any:
    """A stream that the server ends without its last part says nothing at all."""
    try:
        return came.get(timeout=max(0.0, deadline_s - time.monotonic()))
    except queue.Empty:
        raise DeadlineExceeded("the answer did not come to its end in time") from None


def http_parts(response: http.client.HTTPResponse) -> Generator[Part, None, None]:
    """The parts of an answer over HTTP, as server-sent events.

    Raises:
        TranslationError: one of them is an error, or it ends too early.
    """
    for line in response:
        part = event_part(line)
        if part is None:
            continue
        yield part
        if is_last(part):
            return
    raise ServerError(ENDED_EARLY)


def event_part(line: bytes) -> Part | None:
    """What a line of server-sent events brings, as `translate` would answer it.

    Raises:
        TranslationError: see `read_event`.
    """
    values = read_event(line)
    if values is None:
        return None
    return {name: np.array([[_value(value)]], np.object_) for name, value in values.items()}


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
        return {name: event[name] for name in OUTPUTS}
    except (KeyError, TypeError, ValueError) as error:
        raise ServerError(f"not an answer of Triton: {error!r}") from error


def as_json(inputs: Mapping[str, Array], timeout_s: float) -> bytes:
    """Tensors of one value each, and a deadline, as Triton's `generate_stream` takes them."""
    values = {name: _plain(values.reshape(-1)[0]) for name, values in inputs.items()}
    return json.dumps({**values, "timeout": microseconds(timeout_s)}).encode()


def is_last(part: Part) -> bool:
    """Whether a part says why it ends."""
    reasons = part["finish_reason"]
    return reasons is not None and bool(reasons.size) and reasons[0, 0].decode() in _LAST


def _value(value: Any) -> Any:
    return value.encode("utf-8") if isinstance(value, str) else value


def _plain(value: Any) -> Any:
    return value.decode("utf-8") if isinstance(value, bytes) else value.item()

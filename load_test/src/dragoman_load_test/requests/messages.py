"""Serialized requests to the models `translate` and `translate_stream`, and their answers.

A request is serialized completely before the test sends it.

Source: https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_generate.md
"""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman_client.core.errors import TranslationError, from_status
from dragoman_client.core.request import ALWAYS, build_inputs
from dragoman_client.transports import grpc_wire, http_wire
from dragoman_options.table import STREAM, TRANSLATE
from tritonclient.grpc import service_pb2

INFER = "/inference.GRPCInferenceService/ModelInfer"
STREAM_INFER = "/inference.GRPCInferenceService/ModelStreamInfer"

_WANTED = ("text_output", "output_tokens")
"""Outputs that are needed to count a translation."""


@dataclass(frozen=True)
class Answer:
    """The translations of a request, or of a part of it.

    Attributes:
        texts: translations, as many as texts were sent.
        tokens: total number of tokens, without end-of-sequence tokens.
        last: whether this is the last part.
    """

    texts: tuple[str, ...]
    tokens: int
    last: bool = True


def grpc_request(
    texts: Sequence[str], options: Mapping[str, Any], timeout_s: float, streamed: bool = False
) -> bytes:
    """Serialize a message to `ModelInfer` or `ModelStreamInfer`.

    Args:
        texts: texts to translate; one text for a stream.
        options: options by name, as `dragoman_options.table.check` returns them.
        timeout_s: the server's timeout.
        streamed: whether to use `translate_stream`.
    """
    inputs = build_inputs(texts, options)
    write = grpc_wire.stream_request if streamed else grpc_wire.infer_request
    request = write(STREAM if streamed else TRANSLATE, inputs, timeout_s)
    for name in ALWAYS if streamed else _WANTED:
        request.outputs.add(name=name)
    return bytes(request.SerializeToString())


def read_grpc_answer(message: bytes) -> Answer:
    """Parse a message of `ModelInfer`.

    Raises:
        ValueError: the message is malformed.
    """
    try:
        return _grpc_answer(service_pb2.ModelInferResponse.FromString(message))
    except Exception as error:  # protobuf's errors have no common base class
        raise ValueError(f"not an answer of the model {TRANSLATE}: {error!r}") from error


def read_grpc_part(message: bytes) -> Answer:
    """Parse a part of an answer in a message of `ModelStreamInfer`.

    Raises:
        TranslationError: the server refused the request.
        ValueError: the message is malformed.
    """
    try:
        response = service_pb2.ModelStreamInferResponse.FromString(message)
        if response.error_message:
            raise from_status(None, response.error_message)
        return _grpc_answer(response.infer_response)
    except TranslationError:
        raise
    except Exception as error:  # see `read_grpc_answer`
        raise ValueError(f"not an answer of the model {STREAM}: {error!r}") from error


def generate_request(texts: Sequence[str], options: Mapping[str, Any], timeout_s: float) -> bytes:
    """Serialize a body for `/generate` or `/generate_stream`; see `grpc_request`."""
    return http_wire.generate_body(build_inputs(texts, options), timeout_s)


def read_generated(body: bytes) -> Answer:
    """Parse a body of `/generate`.

    Raises:
        ValueError: the body is malformed.
    """
    with reading(f"an answer of the model {TRANSLATE}"):
        texts, counts = (_listed(value) for value in map(json.loads(body).__getitem__, _WANTED))
        return Answer(tuple(map(str, texts)), sum(counts))


@contextlib.contextmanager
def reading(what: str) -> Iterator[None]:
    """Convert exceptions from parsing.

    Raises:
        ValueError: the answer is not `what`.
    """
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"not {what}: {error!r}") from error


def read_event(line: bytes) -> Answer | None:
    """Parse a part of an answer in a line of server-sent events; None: the line has none.

    Raises:
        TranslationError: the server refused the request, or the line is not Triton's.
        ValueError: a value in the event has the wrong type.
    """
    values = http_wire.read_event(line)
    if values is None:
        return None
    try:
        text, tokens, reason = (values[name] for name in ALWAYS)
        return Answer((str(text),), int(tokens), bool(reason))
    except (TypeError, ValueError) as error:
        raise ValueError(f"not an answer of the model {STREAM}: {error!r}") from error


def _listed(value: Any) -> list[Any]:
    """Returns the elements of an output; a single element is not in a list."""
    return value if isinstance(value, list) else [value]


def _grpc_answer(response: service_pb2.ModelInferResponse) -> Answer:
    return _answer(
        {
            tensor.name: raw
            for tensor, raw in zip(response.outputs, response.raw_output_contents, strict=True)
        }
    )


def _answer(tensors: Mapping[str, bytes]) -> Answer:
    texts, counts = (tensors[name] for name in _WANTED)
    tokens = sum(count for (count,) in struct.iter_unpack("<i", counts))
    reasons = _strings(tensors.get("finish_reason", b""))
    return Answer(tuple(_strings(texts)), tokens, all(reasons))


def _strings(raw: bytes) -> list[str]:
    """Returns the elements of a tensor of strings, each preceded by its length."""
    strings, start = [], 0
    while start < len(raw):
        (length,) = struct.unpack_from("<I", raw, start)
        start += 4 + length
        if start > len(raw):
            raise ValueError("a string is cut off")
        strings.append(raw[start - length : start].decode("utf-8"))
    return strings

"""Requests to the models `translate` and `translate_stream`, and their answers, as on the wire.

All of a request is written before it is sent.

Source: https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_generate.md
"""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman_client import grpc_wire, http_wire
from dragoman_client.errors import TranslationError, from_status
from dragoman_client.request import ALWAYS, build_inputs
from dragoman_options.table import STREAM, TRANSLATE
from tritonclient.grpc import service_pb2

INFER = "/inference.GRPCInferenceService/ModelInfer"
STREAM_INFER = "/inference.GRPCInferenceService/ModelStreamInfer"

_WANTED = ("text_output", "output_tokens")
"""Outputs without which a translation cannot be counted."""


@dataclass(frozen=True)
class Answer:
    """The translations of a request, or of a part of it.

    Attributes:
        texts: as many as were sent.
        tokens: of all of them, without end symbols.
        last: whether no part follows.
    """

    texts: tuple[str, ...]
    tokens: int
    last: bool = True


def grpc_request(
    texts: Sequence[str], options: Mapping[str, Any], timeout_s: float, streamed: bool = False
) -> bytes:
    """A message to `ModelInfer` or `ModelStreamInfer`.

    Args:
        texts: what to translate; one, if it is streamed.
        options: by name, as `dragoman_options.table.check` returns them.
        timeout_s: the server's deadline.
        streamed: by `translate_stream`.
    """
    inputs = build_inputs(texts, options)
    write = grpc_wire.stream_request if streamed else grpc_wire.infer_request
    request = write(STREAM if streamed else TRANSLATE, inputs, timeout_s)
    for name in ALWAYS if streamed else _WANTED:
        request.outputs.add(name=name)
    return bytes(request.SerializeToString())


def read_grpc_answer(message: bytes) -> Answer:
    """The answer in a message of `ModelInfer`.

    Raises:
        ValueError: the message holds something else.
    """
    try:
        return _grpc_answer(service_pb2.ModelInferResponse.FromString(message))
    except Exception as error:  # protobuf has no base of its own for what it raises
        raise ValueError(f"not an answer of the model {TRANSLATE}: {error!r}") from error


def read_grpc_part(message: bytes) -> Answer:
    """The part of an answer in a message of `ModelStreamInfer`.

    Raises:
        TranslationError: the server refused.
        ValueError: the message holds something else.
    """
    try:
        response = service_pb2.ModelStreamInferResponse.FromString(message)
        if response.error_message:
            raise from_status(None, response.error_message)
        return _grpc_answer(response.infer_response)
    except TranslationError:
        raise
    except Exception as error:  # as above
        raise ValueError(f"not an answer of the model {STREAM}: {error!r}") from error


def generate_request(texts: Sequence[str], options: Mapping[str, Any], timeout_s: float) -> bytes:
    """A body for `/generate` or `/generate_stream`; arguments as for `grpc_request`."""
    return http_wire.generate_body(build_inputs(texts, options), timeout_s)


def read_generated(body: bytes) -> Answer:
    """The answer in a body of `/generate`.

    Raises:
        ValueError: it holds something else.
    """
    with reading(f"an answer of the model {TRANSLATE}"):
        texts, counts = (_listed(value) for value in map(json.loads(body).__getitem__, _WANTED))
        return Answer(tuple(map(str, texts)), sum(counts))


@contextlib.contextmanager
def reading(what: str) -> Iterator[None]:
    """What reading something else means.

    Raises:
        ValueError: it is not that.
    """
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"not {what}: {error!r}") from error


def read_event(line: bytes) -> Answer | None:
    """The part of an answer in a line of server-sent events; None: the line brings none.

    Raises:
        TranslationError: the server refused, or it is something else.
        ValueError: a value in it is something else.
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
    """An output's elements; one has no list around it."""
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
    """The elements of a tensor of strings, each behind its length."""
    found, start = [], 0
    while start < len(raw):
        (length,) = struct.unpack_from("<I", raw, start)
        start += 4 + length
        if start > len(raw):
            raise ValueError("a string is cut off")
        found.append(raw[start - length : start].decode("utf-8"))
    return found

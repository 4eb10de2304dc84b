"""Serialized requests to the models `translate` and `translate_stream`, and their answers.

A request is serialized completely before the test sends it.

Source: https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_generate.md
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman_client.core.request import ALWAYS, Part, build_inputs, is_last
from dragoman_client.transports import grpc_wire, http_wire
from dragoman_options.table import STREAM, TRANSLATE
from google.protobuf.message import DecodeError
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
    with reading("an answer of Triton"):
        response = service_pb2.ModelInferResponse.FromString(message)
    return answer_of(grpc_wire.read_response(response))


def read_grpc_part(message: bytes) -> Answer:
    """Parse a part of an answer in a message of `ModelStreamInfer`.

    Raises:
        TranslationError: the server refused the request.
        ValueError: the message is malformed.
    """
    with reading("an answer of Triton"):
        response = service_pb2.ModelStreamInferResponse.FromString(message)
    return answer_of(grpc_wire.read_stream_response(response))


def generate_request(texts: Sequence[str], options: Mapping[str, Any], timeout_s: float) -> bytes:
    """Serialize a body for `/generate` or `/generate_stream`; see `grpc_request`."""
    return http_wire.generate_body(build_inputs(texts, options), timeout_s)


def answer_of(part: Part) -> Answer:
    """Returns the counts of an answer, or of a part of it, from its outputs.

    Raises:
        ValueError: an output is missing, or has the wrong type.
    """
    with reading("an answer of a translation server"):
        texts, counts = (part[name] for name in _WANTED)
        last = "finish_reason" not in part or is_last(part)
        return Answer(tuple(text.decode() for text in texts or ()), sum(counts or ()), last)


@contextlib.contextmanager
def reading(what: str) -> Iterator[None]:
    """Convert exceptions from parsing.

    Raises:
        ValueError: the answer is not `what`.
    """
    try:
        yield
    except (AttributeError, DecodeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"not {what}: {error!r}") from error

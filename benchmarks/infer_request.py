"""Requests to the model `translate` and its answers, as bytes on the wire of gRPC.

Knows the protobuf of Triton's protocol; must not know channels, clocks or how many texts there are.
Tensors travel as raw bytes, which is what Triton reads fastest.

Source: https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from tritonclient.grpc import service_pb2

METHOD = "/inference.GRPCInferenceService/ModelInfer"
MODEL = "translate"
_OUTPUTS = ("text_output", "output_tokens")

Option = str | int | float


@dataclass(frozen=True)
class Answer:
    """The translations of a request; `tokens` of all of them, without end symbols."""

    texts: tuple[str, ...]
    tokens: int


def build_request(text: str, options: Mapping[str, Option]) -> bytes:
    """One text, ready to be sent.

    Args:
        text: what to translate.
        options: the model's optional inputs, each of one value.
    """
    request = service_pb2.ModelInferRequest(model_name=MODEL)
    for name, value in {"text_input": text, **options}.items():
        datatype, raw = _encode(value)
        request.inputs.add(name=name, datatype=datatype, shape=[1, 1])
        request.raw_input_contents.append(raw)
    for name in _OUTPUTS:
        request.outputs.add(name=name)
    return bytes(request.SerializeToString())


def read_answer(message: bytes) -> Answer:
    """The answer in a message.

    Raises:
        ValueError: the message holds something else.
    """
    try:
        response = service_pb2.ModelInferResponse.FromString(message)
        tensors = {
            tensor.name: raw
            for tensor, raw in zip(response.outputs, response.raw_output_contents, strict=True)
        }
        texts, counts = (tensors[name] for name in _OUTPUTS)
        tokens = sum(count for (count,) in struct.iter_unpack("<i", counts))
        return Answer(tuple(_strings(texts)), tokens)
    except Exception as error:  # protobuf has no base of its own for what it raises
        raise ValueError(f"not an answer of the model {MODEL}: {error!r}") from error


def _encode(value: Option) -> tuple[str, bytes]:
    """Triton's name of a value's type, and the value as one element of a tensor."""
    if isinstance(value, str):
        raw = value.encode("utf-8")
        return "BYTES", struct.pack("<I", len(raw)) + raw
    if isinstance(value, int):
        return "INT32", struct.pack("<i", value)
    return "FP32", struct.pack("<f", value)


def _strings(raw: bytes) -> list[str]:
    """The elements of a tensor of strings, each behind its length."""
    found, start = [], 0
    while start < len(raw):
        (length,) = struct.unpack_from("<I", raw, start)
        start += 4 + length
        found.append(raw[start - length : start].decode("utf-8"))
    return found

"""The client side of the protocol, like the relay in C: packs requests and parses answers."""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from dragoman_options.frames import (
    PROTOCOL,
    Answer,
    ErrorCode,
    Failure,
    Figure,
    Hello,
    Kind,
    Reading,
    Request,
    RequestOptions,
    Tensor,
    pack_frame,
    pack_tensors,
    pack_text,
)
from dragoman_options.table import SCORE, TEXT_INPUTS

_U8, _U32, _U64 = struct.Struct("<B"), struct.Struct("<I"), struct.Struct("<Q")
_DOUBLE = struct.Struct("<d")
TEXTS = TEXT_INPUTS[SCORE]
"""Names of inputs that hold texts."""


def pack_hello(hello: Hello, protocol: int = PROTOCOL) -> bytes:
    """Returns the first frame of a connection."""
    parts = [_U32.pack(protocol), bytes((hello.is_relay,)), pack_text(hello.model)]
    return pack_frame(Kind.HELLO, parts)


def pack_request(request: Request) -> bytes:
    """Returns the frame of a request."""
    parts = [_U64.pack(request.number), _U64.pack(request.timeout_us)]
    parts += [pack_text(request.id), pack_text(request.trace)]
    parts += [_U32.pack(len(request.options)), request.options]
    return pack_frame(Kind.REQUEST, parts + pack_tensors(request.texts))


def pack_options(options: RequestOptions) -> bytes:
    """Returns the part of a request's frame without its texts."""
    parts = [_U32.pack(len(options.parameters))]
    for name, value in options.parameters.items():
        parts += [pack_text(name), _parameter(value)]
    return b"".join([*parts, _names(options.outputs), *pack_tensors(options.inputs)])


def request_of(
    number: int,
    timeout_us: int,
    parameters: Mapping[str, Any],
    outputs: Sequence[str],
    inputs: Sequence[Tensor],
) -> Request:
    """Returns a request, as the relay makes it from Triton's request."""
    texts = tuple(tensor for tensor in inputs if tensor.name in TEXTS)
    others = tuple(tensor for tensor in inputs if tensor.name not in TEXTS)
    options = pack_options(RequestOptions(dict(parameters), tuple(outputs), others))
    return Request(number, timeout_us, options, texts)


def pack_cancel(number: int) -> bytes:
    """Returns the frame that cancels a request."""
    return pack_frame(Kind.CANCEL, [_U64.pack(number)])


def unpack_answer(body: bytes) -> Answer | Failure:
    """Parses a frame without its head."""
    reading = Reading(body)
    number, last, failed = reading.number(_U64), reading.number(_U8), reading.number(_U8)
    if failed:
        return Failure(number, ErrorCode(reading.number(_U32)), reading.text(), reading.text())
    return Answer(number, reading.tensors(), bool(last))


def unpack_refused(body: bytes) -> str:
    """Returns the reason why a model cannot be used, from a frame without its head."""
    return Reading(body).text()


@functools.lru_cache(maxsize=16)
def _names(names: tuple[str, ...]) -> bytes:
    """A sequence of names; clients seldom vary the outputs."""
    return b"".join([_U32.pack(len(names)), *map(pack_text, names)])


def unpack_figures(body: bytes) -> list[Figure]:
    """Parses metrics, from a frame without its head."""
    reading = Reading(body)
    return [_figure(reading) for _ in range(reading.number(_U32))]


def _figure(reading: Reading) -> Figure:
    is_gauge, name, description = bool(reading.number(_U8)), reading.text(), reading.text()
    labels = tuple([(reading.text(), reading.text()) for _ in range(reading.number(_U32))])
    return Figure(is_gauge, name, description, reading.number(_DOUBLE), labels)


def _parameter(value: Any) -> bytes:
    """A parameter's value, after Triton's number of its type."""
    if isinstance(value, bool):
        return bytes((2, value))
    if isinstance(value, int):
        return b"\1" + value.to_bytes(8, "little", signed=True)
    if isinstance(value, float):
        return b"\3" + _DOUBLE.pack(value)
    return b"\0" + pack_text(value)

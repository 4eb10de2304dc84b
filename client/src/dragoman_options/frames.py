"""The protocol of the engine's socket, between clients and the engine process.

A frame is its length in 4 bytes, its kind in 1 byte, and its content. Numbers are little-endian; a
text is its length in 4 bytes, UTF-8, and a zero byte. Tensors have Triton's representation.

| kind    | to     | holds |
|---------|--------|-------|
| HELLO   | engine | `PROTOCOL` (4), 1 if the client is Triton's relay (1), the model's name |
| REQUEST | engine | number (8), timeout in µs (8), id, trace, options, texts |
| CANCEL  | engine | number (8) of a cancelled request |
| READY   | client | the model can be used: its inputs and outputs, in JSON for Triton |
| REFUSED | client | the reason why the model cannot be used |
| ANSWER  | client | number (8), last one (1), error (1); its code (4), text, details, or outputs |
| FIGURES | client | metrics: kind (1), name, description, labels, value as a double (8) each |

A connection is for one model. The client sends HELLO once and waits for READY; requests are then
answered in any order.

The id is the client's; empty: it sent none. The trace is a text: the request's trace context in
JSON, empty if it is not traced. Options have their length in bytes (4), then parameters,
requested outputs, and inputs other than texts.
A sequence begins with the number of its items in 4 bytes. A parameter is its name, type (1) and
value; a requested output is its name; a label is its name and value, both texts; inputs and outputs
are tensors. The details of an error are the fields of a refusal in JSON, or empty.
A tensor is its name, type (4), number of dimensions (4), dimensions (8 each), bytes (8), content.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from dragoman_options.refusal import WrongValue

PROTOCOL = 8
"""Version of the protocol, which both sides must have; also in relay/frames.h."""
MOST_BYTES = 64 << 20
"""Limit of a frame: larger than any valid request, and small enough for memory; also in
relay/frames.h."""

_SEPARATOR = ","
"""Separates the absolute paths of sockets; also in relay/backend.c."""
_U8, _U32, _U64 = struct.Struct("<B"), struct.Struct("<I"), struct.Struct("<Q")
_TWO_U32, _TWO_U64 = struct.Struct("<II"), struct.Struct("<QQ")
_ANSWER = struct.Struct("<QBB")
_I64, _DOUBLE = struct.Struct("<q"), struct.Struct("<d")
_HEAD = struct.Struct("<IB")


class Kind(IntEnum):
    """Kind of a frame."""

    HELLO = 1
    REQUEST = 2
    CANCEL = 3
    READY = 4
    REFUSED = 5
    ANSWER = 6
    FIGURES = 7


_KINDS = {kind.value: kind for kind in Kind}


class DataType(IntEnum):
    """Triton's numbers of the data types that are used."""

    BOOL = 1
    INT32 = 8
    INT64 = 9
    FP32 = 11
    BYTES = 13


class ErrorCode(IntEnum):
    """Triton's numbers of errors, by Triton's and gRPC's names."""

    INTERNAL = 1
    INVALID_ARG = 3
    INVALID_ARGUMENT = 3
    UNAVAILABLE = 4
    CANCELLED = 7


_MOST_DIMS = 64
_STRING, _INT, _BOOL, _DOUBLE_KIND = range(4)
"""Triton's numbers of parameter types."""
_FORMATS: dict[int, str] = {
    DataType.BOOL: "?",
    DataType.INT32: "i",
    DataType.INT64: "q",
    DataType.FP32: "f",
}


class Damaged(ValueError):
    """Received bytes are not valid."""


class OtherProtocol(ValueError):
    """The other side has another version of the protocol."""


class Tensor(NamedTuple):
    """A named array in Triton's representation."""

    name: str
    datatype: int
    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def of(
        cls, name: str, datatype: DataType, shape: tuple[int, ...], values: Sequence[Any]
    ) -> Tensor:
        """Returns a tensor of numbers, or of byte strings."""
        if datatype is DataType.BYTES:
            data = b"".join([_U32.pack(len(value)) + value for value in values])
        else:
            data = struct.pack(f"<{len(values)}{_FORMATS[datatype]}", *values)
        return cls(name, datatype, shape, data)

    @property
    def values(self) -> list[Any]:
        """Its elements in order: numbers, or byte strings.

        Raises:
            WrongValue: an unsupported type, or a wrong length.
        """
        try:
            if self.datatype == DataType.BYTES:
                return _strings(self.data)
            form = _FORMATS[self.datatype]
            return list(
                struct.unpack(f"<{len(self.data) // struct.calcsize(form)}{form}", self.data)
            )
        except (KeyError, ValueError, struct.error):
            raise WrongValue(f"input {self.name} is damaged") from None


@dataclass(frozen=True)
class Hello:
    """A client that connects to a model."""

    model: str
    is_relay: bool = False

    @classmethod
    def unpack(cls, body: bytes) -> Hello:
        """Parses a frame without its head.

        Raises:
            OtherProtocol: the client has another version of the protocol.
        """
        reading = Reading(body)
        if (protocol := reading.number(_U32)) != PROTOCOL:
            raise OtherProtocol(
                f"the client has version {protocol} of the protocol and the engine {PROTOCOL}: "
                "reinstall Dragoman, so that both are from the same release"
            )
        is_relay = bool(reading.number(_U8))
        return cls(reading.text(), is_relay)


@dataclass(frozen=True)
class RequestOptions:
    """All parts of a request except its texts."""

    parameters: dict[str, Any]
    outputs: tuple[str, ...]
    inputs: tuple[Tensor, ...]

    @classmethod
    def unpack(cls, packed: bytes) -> RequestOptions:
        """Parses the options of a request."""
        reading = Reading(packed)
        parameters = {reading.text(): reading.parameter() for _ in range(reading.number(_U32))}
        outputs = tuple(reading.text() for _ in range(reading.number(_U32)))
        return cls(parameters, outputs, reading.tensors())


@dataclass
class Request:
    """A request as the client sent it; `options` are packed `RequestOptions`."""

    number: int
    timeout_us: int
    options: bytes
    texts: tuple[Tensor, ...]
    trace: str = ""
    id: str = ""


_MOST_ALIKE_BYTES = 4096
"""Larger options are not kept for the next request of a connection."""


class RequestParser:
    """Parses the requests of a connection, which often have the same options and one text."""

    def __init__(self) -> None:
        """Start without a request."""
        self._alike = b""
        """What was between the trace and the bytes of the only text, in the request before."""
        self._options, self._texts = b"", tuple[Tensor, ...]()

    def parse(self, body: bytes) -> Request:
        """Parses a frame without its head."""
        reading = Reading(body)
        number, timeout_us = reading.numbers(_TWO_U64)
        request_id, trace = reading.text(), reading.text()
        begin = reading.position
        if self._texts and body.startswith(self._alike, begin):
            reading.bytes(len(self._alike))
            text = self._texts[0]._replace(data=reading.bytes(reading.number(_U64)))
            return Request(number, timeout_us, self._options, (text,), trace, request_id)
        options = reading.bytes(reading.number(_U32))
        texts = reading.tensors()
        if len(texts) == 1 and len(options) <= _MOST_ALIKE_BYTES:
            self._alike = body[begin : reading.position - len(texts[0].data) - _U64.size]
            self._options, self._texts = options, (texts[0]._replace(data=b""),)
        return Request(number, timeout_us, options, texts, trace, request_id)


class Answer(NamedTuple):
    """Outputs of a request; more answers follow unless this is the last."""

    number: int
    outputs: tuple[Tensor, ...]
    last: bool = True

    def pack(self) -> bytes:
        """Returns the frame.

        Raises:
            WrongValue: the frame would exceed the limit.
        """
        head = _ANSWER.pack(self.number, self.last, False)
        frame = pack_frame(Kind.ANSWER, [head, *pack_tensors(self.outputs)])
        if len(frame) - _U32.size > MOST_BYTES:
            raise WrongValue(
                f"the answer is larger than {MOST_BYTES >> 20} MiB: "
                "send fewer texts in a request, or request fewer outputs",
                "too_large",
            )
        return frame


@dataclass(frozen=True)
class Failure:
    """The error of a request: its last answer."""

    number: int
    code: ErrorCode
    message: str
    details: str = ""
    """Fields of a refusal in JSON; empty: none."""
    last = True

    def pack(self) -> bytes:
        """Returns the frame."""
        head = _ANSWER.pack(self.number, self.last, True)
        texts = [pack_text(self.message), pack_text(self.details)]
        return pack_frame(Kind.ANSWER, [head, _U32.pack(self.code), *texts])


@dataclass(frozen=True)
class Figure:
    """A metric: the increase of a counter, or the value of a gauge."""

    is_gauge: bool
    name: str
    description: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()
    """Names and values, besides the model's name. Metrics of one name must be consecutive."""


def join_paths(paths: Iterable[object]) -> str:
    """Returns the sockets of several engine processes as one text, as for a URL."""
    return _SEPARATOR.join(map(str, paths))


def split_paths(text: str) -> list[str]:
    """Returns the absolute paths in the result of `join_paths`, at least one."""
    first, *others = text.split(f"{_SEPARATOR}/")
    return [first, *(f"/{path}" for path in others)]


def pack_figures(figures: Sequence[Figure]) -> bytes:
    """Returns the frame."""
    parts = [_U32.pack(len(figures))]
    for figure in figures:
        parts += [bytes((figure.is_gauge,)), pack_text(figure.name), pack_text(figure.description)]
        parts.append(_U32.pack(len(figure.labels)))
        parts += [pack_text(text) for label in figure.labels for text in label]
        parts.append(_DOUBLE.pack(figure.value))
    return pack_frame(Kind.FIGURES, parts)


def unpack_cancel(body: bytes) -> int:
    """Returns the number of a request, from a frame without its head."""
    return int(Reading(body).number(_U64))


def pack_ready(config: str) -> bytes:
    """Returns the frame for a model that can be used; `config` is its configuration for Triton."""
    return pack_frame(Kind.READY, [pack_text(config)])


def pack_refused(reason: str) -> bytes:
    """Returns the frame with the reason why a model cannot be used."""
    return pack_frame(Kind.REFUSED, [pack_text(reason)])


class FrameSplitter:
    """Splits received bytes into frames."""

    def __init__(self) -> None:
        """Start with an empty buffer."""
        self._bytes = bytearray()

    def feed(self, received: bytes) -> Iterator[tuple[Kind, bytes]]:
        """Adds bytes, and yields the complete frames, without their heads.

        Raises:
            Damaged: an unknown kind, or a wrong length of a frame.
        """
        self._bytes += received
        begin = 0
        try:
            while len(self._bytes) - begin >= _HEAD.size:
                length, kind = _HEAD.unpack_from(self._bytes, begin)
                if not 1 <= length <= MOST_BYTES:
                    raise Damaged(f"a frame of {length} bytes")
                end = begin + _U32.size + length
                if len(self._bytes) < end:
                    break
                body = bytes(memoryview(self._bytes)[begin + _HEAD.size : end])
                begin = end
                yield _kind(kind), body
        finally:
            del self._bytes[:begin]


class Reading:
    """Reads a frame; reading beyond its end raises `Damaged`."""

    def __init__(self, body: bytes) -> None:
        """Start at the first byte."""
        self._body = body
        self._at = 0

    @property
    def position(self) -> int:
        """Number of bytes that were read."""
        return self._at

    def number(self, form: struct.Struct) -> Any:
        """Reads the next number."""
        at = self._at
        self._at = at + form.size
        try:
            return form.unpack_from(self._body, at)[0]
        except struct.error:
            raise Damaged("a frame ends too early") from None

    def numbers(self, form: struct.Struct) -> tuple[Any, ...]:
        """Reads the next numbers."""
        at = self._at
        self._at = at + form.size
        try:
            return form.unpack_from(self._body, at)
        except struct.error:
            raise Damaged("a frame ends too early") from None

    def bytes(self, count: int) -> bytes:
        """Reads the next `count` bytes."""
        at = self._at
        self._at = at + count
        if self._at > len(self._body):
            raise Damaged("a frame ends too early")
        return self._body[at : at + count]

    def text(self) -> str:
        """Reads the next text."""
        size = self.number(_U32)
        at = self._at
        self._at = end = at + size + 1
        if end > len(self._body):
            raise Damaged("a frame ends too early")
        return self._body[at : end - 1].decode("utf-8", errors="replace") if size else ""

    def parameter(self) -> Any:
        """Reads the type and value of a parameter."""
        kind = self.number(_U8)
        if kind == _STRING:
            return self.text()
        if kind == _BOOL:
            return bool(self.number(_U8))
        if kind not in (_INT, _DOUBLE_KIND):
            raise Damaged(f"a parameter of type {kind}")
        return self.number(_I64 if kind == _INT else _DOUBLE)

    def tensors(self) -> tuple[Tensor, ...]:
        """Reads a sequence of tensors."""
        return tuple([self._tensor() for _ in range(self.number(_U32))])

    def _tensor(self) -> Tensor:
        body, at = self._body, self._at
        try:
            (length,) = _U32.unpack_from(body, at)
            at += _U32.size + length + 1
            name = body[at - length - 1 : at - 1].decode("utf-8", errors="replace")
            datatype, dims = _TWO_U32.unpack_from(body, at)
            at += _TWO_U32.size
            form = _shape_form(dims)
            *shape, count = form.unpack_from(body, at)
            self._at = at + form.size
        except struct.error:
            raise Damaged("a frame ends too early") from None
        return Tensor(name, datatype, tuple(shape), self.bytes(count))


@functools.lru_cache(maxsize=16)
def _shape_form(dims: int) -> struct.Struct:
    """The form of a shape and the number of bytes after it."""
    if dims > _MOST_DIMS:
        raise Damaged(f"a tensor of {dims} dimensions")
    return struct.Struct(f"<{dims}qQ")


def _kind(number: int) -> Kind:
    if (kind := _KINDS.get(number)) is None:
        raise Damaged(f"there is no frame of kind {number}")
    return kind


def pack_frame(kind: Kind, parts: Sequence[bytes]) -> bytes:
    """Returns a frame of this kind."""
    body = b"".join(parts)
    return _HEAD.pack(len(body) + 1, kind) + body


def pack_text(text: str) -> bytes:
    """Returns a text in its representation in a frame."""
    encoded = text.encode("utf-8")
    return _U32.pack(len(encoded)) + encoded + b"\0"


def pack_tensors(tensors: Sequence[Tensor]) -> list[bytes]:
    """Returns tensors in their representation in a frame."""
    parts = [_U32.pack(len(tensors))]
    for name, datatype, shape, data in tensors:
        parts += [_tensor_head(name, datatype, shape), _U64.pack(len(data)), data]
    return parts


@functools.lru_cache(maxsize=256)
def _tensor_head(name: str, datatype: int, shape: tuple[int, ...]) -> bytes:
    """What stands before a tensor's bytes; most answers have the same heads."""
    dims = len(shape)
    return pack_text(name) + struct.pack(f"<II{dims}q", datatype, dims, *shape)


def _strings(data: bytes) -> list[bytes]:
    strings, at = [], 0
    while at < len(data):
        (length,) = _U32.unpack_from(data, at)
        begin = at + _U32.size
        at = begin + length
        if at > len(data):
            raise ValueError
        strings.append(data[begin:at])
    return strings

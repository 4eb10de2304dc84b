"""What Triton's models and the engine's process say to each other, as bytes.

A frame is its length in 4 bytes, its kind in 1, and what it holds. Numbers have their lowest byte
first; a text is its length in 4 bytes, UTF-8, and a zero byte. Tensors travel as Triton has them.

| kind    | to     | holds |
|---------|--------|-------|
| HELLO   | engine | `PROTOCOL` (4), the model's folder, version (8), configuration in JSON |
| REQUEST | engine | number (8), timeout in µs (8), trace, options with their bytes (4), texts |
| CANCEL  | engine | number (8) of a request that nobody waits for any more |
| READY   | Triton | the model's inputs and outputs, in JSON: it can be used |
| REFUSED | Triton | why the model cannot be used |
| ANSWER  | Triton | number (8), last one (1), error (1); its code (4) and text, or outputs |
| FIGURES | Triton | figures: kind (1), name, description, labels, value as a double (8) each |

The trace is a text: the request's trace context in JSON, empty if Triton does not trace it.
Options are parameters, wanted outputs and inputs, but for the inputs that hold texts.
Before the things of which there may be many stands their number in 4 bytes. A parameter is its
name, type (1), value; a wanted output its name; a label its name and value, both texts; inputs and
outputs are tensors.
A tensor is its name, type (4), number of dimensions (4), dimensions (8 each), bytes (8), content.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from dragoman.kernel.errors import InvalidRequest, UsageError

PROTOCOL = 5
"""Version of these frames, which both sides must speak; relay/frames.h has it too."""
MOST_BYTES = 64 << 20
"""Of a frame: more than a request may hold, less than would hurt; relay/frames.h has it too."""

_U8, _U32, _U64 = struct.Struct("<B"), struct.Struct("<I"), struct.Struct("<Q")
_I64, _DOUBLE = struct.Struct("<q"), struct.Struct("<d")
_HEAD = struct.Struct("<IB")


class Kind(IntEnum):
    """Of a frame."""

    HELLO = 1
    REQUEST = 2
    CANCEL = 3
    READY = 4
    REFUSED = 5
    ANSWER = 6
    FIGURES = 7


class DataType(IntEnum):
    """Triton's numbers of the types that are used."""

    BOOL = 1
    INT32 = 8
    INT64 = 9
    FP32 = 11
    BYTES = 13


class ErrorCode(IntEnum):
    """Triton's numbers of its errors, by its names and gRPC's."""

    INTERNAL = 1
    INVALID_ARG = 3
    INVALID_ARGUMENT = 3
    UNAVAILABLE = 4
    CANCELLED = 7


_STRING, _INT, _BOOL, _DOUBLE_KIND = range(4)
"""Triton's numbers of the types of parameters."""
_FORMATS = {DataType.BOOL: "?", DataType.INT32: "i", DataType.INT64: "q", DataType.FP32: "f"}


class Damaged(ValueError):
    """Bytes that are not what they should be."""


@dataclass(frozen=True)
class Tensor:
    """A named array as Triton has it."""

    name: str
    datatype: int
    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def of(
        cls, name: str, datatype: DataType, shape: tuple[int, ...], values: Sequence[Any]
    ) -> Tensor:
        """A tensor of numbers, or of byte strings."""
        if datatype is DataType.BYTES:
            data = b"".join(_U32.pack(len(value)) + value for value in values)
        else:
            data = struct.pack(f"<{len(values)}{_FORMATS[datatype]}", *values)
        return cls(name, datatype, shape, data)

    @property
    def values(self) -> list[Any]:
        """Its elements in order: numbers, or byte strings.

        Raises:
            InvalidRequest: a type that is not used, or a length that does not fit.
        """
        try:
            if self.datatype == DataType.BYTES:
                return list(_strings(self.data))
            form = _FORMATS[DataType(self.datatype)]
            return list(
                struct.unpack(f"<{len(self.data) // struct.calcsize(form)}{form}", self.data)
            )
        except (ValueError, struct.error):
            raise InvalidRequest(f"input {self.name} is damaged") from None


@dataclass(frozen=True)
class Hello:
    """A model, and where it lies."""

    folder: str
    version: int
    config: str
    """JSON."""

    @classmethod
    def unpack(cls, body: bytes) -> Hello:
        """From a frame without its head.

        Raises:
            UsageError: the relay speaks another version of the protocol.
        """
        reading = Reading(body)
        if (protocol := reading.number(_U32)) != PROTOCOL:
            raise UsageError(
                f"the relay speaks version {protocol} of the protocol and the engine {PROTOCOL}: "
                "install Dragoman anew, so that both are of one release"
            )
        return cls(reading.text(), reading.number(_U64), reading.text())


@dataclass(frozen=True)
class RequestOptions:
    """Everything of a request but its texts."""

    parameters: dict[str, Any]
    outputs: tuple[str, ...]
    inputs: tuple[Tensor, ...]

    @classmethod
    def unpack(cls, packed: bytes) -> RequestOptions:
        """From a request's bytes."""
        reading = Reading(packed)
        parameters = {reading.text(): reading.parameter() for _ in range(reading.number(_U32))}
        outputs = tuple(reading.text() for _ in range(reading.number(_U32)))
        return cls(parameters, outputs, reading.tensors())


@dataclass
class Request:
    """A request as it came to Triton; `options` are packed `RequestOptions`."""

    number: int
    timeout_us: int
    options: bytes
    texts: tuple[Tensor, ...]
    trace: str = ""

    @classmethod
    def unpack(cls, body: bytes) -> Request:
        """From a frame without its head."""
        reading = Reading(body)
        number, timeout_us, trace = reading.number(_U64), reading.number(_U64), reading.text()
        options = reading.bytes(reading.number(_U32))
        return cls(number, timeout_us, options, reading.tensors(), trace)


@dataclass(frozen=True)
class Answer:
    """Outputs for a request; others follow unless it is the last."""

    number: int
    outputs: tuple[Tensor, ...]
    last: bool = True

    def pack(self) -> bytes:
        """The frame.

        Raises:
            InvalidRequest: it would be longer than the relay reads.
        """
        head = [_U64.pack(self.number), bytes((self.last, False))]
        frame = pack_frame(Kind.ANSWER, head + pack_tensors(self.outputs))
        if len(frame) - _U32.size > MOST_BYTES:
            raise InvalidRequest(
                f"the answer is larger than {MOST_BYTES >> 20} MiB: "
                "send fewer texts in a request, or request fewer outputs"
            )
        return frame


@dataclass(frozen=True)
class Failure:
    """What went wrong with a request: its last answer."""

    number: int
    code: ErrorCode
    message: str
    last = True

    def pack(self) -> bytes:
        """The frame."""
        head = _U64.pack(self.number) + bytes((self.last, True))
        return pack_frame(Kind.ANSWER, [head, _U32.pack(self.code), pack_text(self.message)])


@dataclass(frozen=True)
class Figure:
    """A metric: how much a counter has grown, or a gauge's value."""

    is_gauge: bool
    name: str
    description: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()
    """Names and values, beside the model's name; figures of one name follow each other."""


def pack_figures(figures: Sequence[Figure]) -> bytes:
    """The frame."""
    parts = [_U32.pack(len(figures))]
    for figure in figures:
        parts += [bytes((figure.is_gauge,)), pack_text(figure.name), pack_text(figure.description)]
        parts.append(_U32.pack(len(figure.labels)))
        parts += [pack_text(text) for label in figure.labels for text in label]
        parts.append(_DOUBLE.pack(figure.value))
    return pack_frame(Kind.FIGURES, parts)


def unpack_cancel(body: bytes) -> int:
    """The number of a request, from a frame without its head."""
    return int(Reading(body).number(_U64))


def pack_ready(config: str) -> bytes:
    """The frame that says that a model can be used; `config` is the part that Triton takes."""
    return pack_frame(Kind.READY, [pack_text(config)])


def pack_refused(reason: str) -> bytes:
    """The frame that says why a model cannot be used."""
    return pack_frame(Kind.REFUSED, [pack_text(reason)])


class FrameSplitter:
    """Cuts what comes into frames."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._bytes = bytearray()

    def feed(self, received: bytes) -> Iterator[tuple[Kind, bytes]]:
        """Take bytes, and give the frames that are whole, without their heads.

        Raises:
            Damaged: an unknown kind, or a frame that is too long.
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
    """A frame that is read from its beginning; reading beyond its end raises `Damaged`."""

    def __init__(self, body: bytes) -> None:
        """Begin at the beginning."""
        self._body = body
        self._at = 0

    def number(self, form: struct.Struct) -> Any:
        """The next number."""
        at = self._at
        self._at = at + form.size
        try:
            return form.unpack_from(self._body, at)[0]
        except struct.error:
            raise Damaged("a frame ends too early") from None

    def bytes(self, count: int) -> bytes:
        """So many bytes."""
        at = self._at
        self._at = at + count
        if self._at > len(self._body):
            raise Damaged("a frame ends too early")
        return self._body[at : at + count]

    def text(self) -> str:
        """The next text."""
        return self.bytes(self.number(_U32) + 1)[:-1].decode("utf-8", errors="replace")

    def parameter(self) -> Any:
        """The value of a parameter."""
        kind = self.number(_U8)
        if kind == _STRING:
            return self.text()
        if kind == _BOOL:
            return bool(self.number(_U8))
        if kind not in (_INT, _DOUBLE_KIND):
            raise Damaged(f"a parameter of type {kind}")
        return self.number(_I64 if kind == _INT else _DOUBLE)

    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors that follow."""
        return tuple([self._tensor() for _ in range(self.number(_U32))])

    def _tensor(self) -> Tensor:
        name, datatype = self.text(), self.number(_U32)
        shape = tuple([self.number(_I64) for _ in range(self.number(_U32))])
        return Tensor(name, datatype, shape, self.bytes(self.number(_U64)))


def _kind(number: int) -> Kind:
    try:
        return Kind(number)
    except ValueError:
        raise Damaged(f"there is no frame of kind {number}") from None


def pack_frame(kind: Kind, parts: Sequence[bytes]) -> bytes:
    """A frame of this kind."""
    body = b"".join(parts)
    return _HEAD.pack(len(body) + 1, kind) + body


def pack_text(text: str) -> bytes:
    """A text as it is in a frame."""
    encoded = text.encode("utf-8")
    return _U32.pack(len(encoded)) + encoded + b"\0"


def pack_tensors(tensors: Sequence[Tensor]) -> list[bytes]:
    """Tensors as they are in a frame."""
    parts = [_U32.pack(len(tensors))]
    for tensor in tensors:
        dims = len(tensor.shape)
        parts += [
            pack_text(tensor.name),
            struct.pack(f"<II{dims}qQ", tensor.datatype, dims, *tensor.shape, len(tensor.data)),
            tensor.data,
        ]
    return parts


def _strings(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        (length,) = _U32.unpack_from(data, at)
        at += _U32.size + length
        if at > len(data):
            raise ValueError
        yield data[at - length : at]

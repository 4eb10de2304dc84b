"""Damaged gRPC messages, and connections of damaged HTTP/2 frames."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from random import Random

from dragoman_options.table import OPTIONS
from tritonclient.grpc import service_pb2

from tests.campaigns import http2
from tests.campaigns.http_damage import mutated
from tests.campaigns.sentence import TEXT

SERVICE = "/inference.GRPCInferenceService/"
CLOSED_METHODS = (
    *("RepositoryIndex", "TraceSetting", "LogSettings", "SystemSharedMemoryStatus"),
    "CudaSharedMemoryStatus",
)
"""Closed methods that only read; those that change something would damage the server under test."""
_OTHER_METHODS = (
    *("ModelMetadata", "ModelConfig", "ModelReady", "ModelStatistics", "ServerMetadata"),
    *("ServerReady", "RepositoryModelLoad", "RepositoryModelUnload", "Nothing", *CLOSED_METHODS),
)
_OPTIONS = {option.name: option.datatype for option in OPTIONS.values()}
_TEXTS = (
    *(TEXT.encode(), b"", b" ", b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"a " * 300, b"x" * 3000),
    *("ß\U0001d518".encode(), "▁<s></s>".encode(), b"de", b"en", b"auto", b"hard", b"soft"),
    *(b'{"a":"b"}', b"{", b"[" * 10_000, b'{"a":' * 4_000),
)
_NUMBERS = {
    "INT32": ("<i", (0, 1, 2, 4, 8, 9, 10, 300, -1, 2**31 - 1, -(2**31))),
    "INT64": ("<q", (0, 1, -1, 2**63 - 1, -(2**63))),
    "FP32": ("<f", (0.0, 0.5, 1.0, -1.0, 10.0, 1e38, 1e-45, float("nan"), float("inf"))),
    "BOOL": ("B", (0, 1, 1, 2, 255)),
}
_SHAPES: tuple[list[int], ...] = (
    *([1], [1, 2], [2, 1], [0, 1], [1, 0], [-1], [1, -1], [], [1, 1, 1], [2**40, 1], [2**62, 4]),
    *([128, 1], [129, 1], [1, 100_001]),
)
_PARAMETERS = (
    *("timeout", "priority", "queue_priority", "sequence_id", "sequence_start", "sequence_end"),
    *("triton_enable_empty_final_response", "binary_data_output", "unknown", "triton_x", ""),
)
_PARAMETER_VALUES = (
    *(("int64_param", value) for value in (0, 1, -1, 5, 2**63 - 1)),
    *(("string_param", value) for value in ("", "de", "\0", "x" * 1000)),
    *(("double_param", value) for value in (1.5, float("nan"), float("inf"))),
    *(("uint64_param", value) for value in (0, 1000, 2**64 - 1)),
    ("bool_param", True),
)


def other_method(chance: Random) -> str:
    """A method beside those that infer."""
    return chance.choice(_OTHER_METHODS)


def message(chance: Random, model: str | None = None) -> bytes:
    """A request to infer with damaged tensors and parameters, or with damaged bytes.

    Args:
        chance: the random generator.
        model: the model's name, which is not damaged; by default one of several, known or not.
    """
    request = service_pb2.ModelInferRequest(
        model_name=model or chance.choice((*["translate"] * 5, "score", "x", "")),
        model_version="" if model else chance.choice((*[""] * 8, "1", "2", "x", "-1")),
        id=chance.choice(("", "1", "x" * 3000)),
    )
    names = ["text_input"] * (chance.random() < 0.96)
    names += ["target_input"] * (request.model_name == "score" or chance.random() < 0.05)
    names += chance.sample(list(_OPTIONS), chance.choice((0, 0, 1, 1, 2, 3)))
    names += [chance.choice(("text_input", "unknown", ""))] * (chance.random() < 0.04)
    for name in names:
        _add_input(request, name, chance)
    if chance.random() < 0.08:
        request.raw_input_contents.append(chance.randbytes(chance.randrange(20)))
    for _ in range(chance.choice((*[0] * 6, 1, 2))):
        name = chance.choice((*_OPTIONS, *_PARAMETERS))
        setattr(request.parameters[name], *chance.choice(_PARAMETER_VALUES))
    for _ in range(chance.choice((*[0] * 5, 1, 3))):
        request.outputs.add(name=chance.choice(("text_output", "output_tokens", "x", "")))
    encoded = bytes(request.SerializeToString())
    return mutated(chance, encoded) if model is None and chance.random() < 0.3 else encoded


def _add_input(request: service_pb2.ModelInferRequest, name: str, chance: Random) -> None:
    datatype = _OPTIONS.get(name, "BYTES")
    stated = datatype if chance.random() < 0.95 else chance.choice(("FP64", "INT8", "", "x"))
    tensor = request.inputs.add(name=name, datatype=stated)
    usual = [1] if request.model_name == "translate_stream" else [1, 1]
    tensor.shape.extend(usual if chance.random() < 0.85 else chance.choice(_SHAPES))
    if chance.random() < 0.12:
        key = chance.choice(("binary_data_size", "shared_memory_region", "x"))
        tensor.parameters[key].string_param = "y"
    if chance.random() < 0.05:
        tensor.contents.bytes_contents.extend([b"a"] * chance.randrange(4))
    elif chance.random() < 0.97:
        request.raw_input_contents.append(_content(chance, datatype))


def _content(chance: Random, datatype: str) -> bytes:
    if datatype in _NUMBERS:
        form, values = _NUMBERS[datatype]
        if chance.random() < 0.15:
            return chance.randbytes(chance.choice((0, 1, 3, 5, 8, 16)))
        return struct.pack(form, chance.choice(values))
    text = chance.choice(_TEXTS)
    length = len(text)
    if chance.random() < 0.25:
        length = chance.choice((length + 1, 0, 3, 2**31, 2**32 - 1, 2**32 - 4))
    content = (struct.pack("<I", length) + text) * chance.choice((1, 1, 1, 1, 2, 3))
    return content[: chance.randrange(len(content) + 1)] if chance.random() < 0.05 else content


def connection(chance: Random, body: bytes, method: str = SERVICE + "ModelInfer") -> bytes:
    """All bytes of a damaged connection that starts like a call of a method."""
    headers = http2.block(http2.call_headers(method.encode(), [chance.choice(_ODD_HEADERS)]))
    data = b"\0" + struct.pack(">I", len(body)) + body
    frames = [
        http2.frame(http2.Type.SETTINGS, 0, 0, _settings(chance)),
        http2.frame(http2.Type.HEADERS, http2.END_HEADERS, 1, headers),
        http2.frame(http2.Type.DATA, http2.END_STREAM, 1, data),
    ]
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(frames) + 1)
        frames[at:at] = _odd_frames(chance, headers)
    sent = (http2.PREFACE if chance.random() < 0.95 else b"") + b"".join(frames)
    return mutated(chance, sent) if chance.random() < 0.5 else sent


_ODD_HEADERS: Sequence[http2.Header] = (
    *((b"x", b"y"), (b"", b""), (b":path", b"/"), (b":x", b"y"), (b"X", b"y"), (b"x", b"\0\n\r")),
    *((b"grpc-timeout", b"1n"), (b"grpc-timeout", b"x"), (b"grpc-timeout", b"-1S")),
    *((b"grpc-encoding", b"gzip"), (b"grpc-encoding", b"x"), (b"content-length", b"5")),
    *((b"x", b"a" * 20_000), (b"a" * 20_000, b"x"), (b"x-bin", b"!!!"), (b"te", b"x")),
)


def _settings(chance: Random) -> bytes:
    """Settings with values at and beyond their limits."""
    return b"".join(
        struct.pack(
            ">HI",
            chance.choice((1, 2, 3, 4, 5, 6, 8, 0xFFFF)),
            chance.choice((0, 1, 2**14, 2**24, 2**31, 2**32 - 1)),
        )
        for _ in range(chance.choice((0, 0, 1, 3)))
    )


def _odd_frames(chance: Random, headers: bytes) -> list[bytes]:
    stream = chance.choice((0, 1, 2, 3, 2**31 - 1))
    number = struct.pack(">I", chance.choice((0, 1, 2**31 - 1, 2**32 - 1)))
    some = chance.randbytes(chance.randrange(40))
    kind = chance.randrange(12)
    many = range(3, 403, 2)
    return chance.choice(
        (
            [http2.frame(kind, chance.randrange(256), stream, some)],
            [http2.frame(kind, 0, stream, some, length=chance.choice((0, 1, 2**14, 2**24 - 1)))],
            [http2.frame(http2.Type.WINDOW_UPDATE, 0, stream, number)],
            [http2.frame(http2.Type.RST_STREAM, 0, stream, number)],
            [http2.frame(http2.Type.GOAWAY, 0, stream, number + number)],
            [http2.frame(http2.Type.PRIORITY, 0, stream, number + b"\0")],
            [http2.frame(http2.Type.PUSH_PROMISE, http2.END_HEADERS, 1, number + headers)],
            [http2.frame(http2.Type.PING, 0, 0, bytes(8))] * 200,
            [http2.frame(http2.Type.SETTINGS, 0, 0)] * 200,
            [
                http2.frame(http2.Type.HEADERS, 0, 3, headers),
                *[http2.frame(http2.Type.CONTINUATION, 0, 3, some)] * 200,
            ],
            [http2.frame(http2.Type.HEADERS, http2.END_HEADERS, 1, some)],
            [
                part
                for number in many
                for part in (
                    http2.frame(http2.Type.HEADERS, http2.END_HEADERS, number, headers),
                    http2.frame(http2.Type.RST_STREAM, 0, number, struct.pack(">I", 8)),
                )
            ],
        )
    )

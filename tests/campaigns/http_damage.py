"""27 kinds of damaged HTTP requests, as bytes for a raw socket.

JSON tensors whose shape claims an enormous size crash Triton 24.10, and so does a text output that
is requested as a classification; only the subject `upstream` sends them.
"""

from __future__ import annotations

import gzip
import json
import math
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from typing import Any

from dragoman_options.table import OPTIONS as TABLE

from tests.campaigns.sentence import BODY

MODELS = ("translate", "translate_stream", "score", "info")


class End(Enum):
    """Ways in which a client leaves instead of waiting for a response."""

    HALF_CLOSE = auto()
    CLOSE = auto()
    RESET = auto()


Step = bytes | float | End
"""Bytes to send, seconds to wait, or an end."""


@dataclass(frozen=True)
class Kind:
    """A kind of damage.

    weight: relative frequency.
    make: writes one request.
    is_whole: whether the request is complete HTTP, so that the server must respond.
    """

    name: str
    weight: float
    make: Callable[[Random], list[Step]]
    is_whole: bool


OPTIONS = (
    *TABLE,
    *("queue_priority", "timeout", "priority", "sequence_id", "sequence_start", "sequence_end"),
    *("binary_data_output", "headers", "id", "parameters", "model_version"),
)
_VALUES = (
    *("0", "-1", "1", "2", "8", "9", "300", "0.1", "1.5", "3.0", "-0.0", "1e-320", "1e308"),
    *("-1e308", "1e400", "9223372036854775807", "-9223372036854775808", "9223372036854775808"),
    *("18446744073709551615", "18446744073709551616", "1" * 400, "NaN", "Infinity", "-Infinity"),
    *("nan", "true", "false", "null", '""', '"de"', '"auto"', '"en"', '"1"', '"hard"', '"soft"'),
    *(r'"\u0000"', r'"\ud800"', r'"\ud83d\ude00"', '"%s%n%x"', '"../../etc/passwd"'),
    *("[]", "{}", "[[]]", "[1]", "[true]", "[null]", '["a"]', '["a", 1]', '[""]', '{"a": 1}'),
    *(r'"{\"cat\": \"dog\"}"', r'"{\"a\":"', '"[1]"', '"' + "x" * 5000 + '"'),
    json.dumps(json.dumps({f"w{number}": f"v{number}" for number in range(300)})),
    json.dumps([f"w{number}" for number in range(150)]),
)
_TEXTS = (
    *('"Good morning."', '""', '" "', r'"\u0000"', r'"\ud800"', r'"a\ud83d"', r'"\n\n"', "[]"),
    *('["a", ""]', '["a", "b", "c"]', '[["a"]]', "[1]", "[null]", "{}", "null", "1", "true"),
    *('"' + "a " * 300 + '"', '"' + r"\u00e9" * 260 + '"', '"' + "ß" * 50 + '"'),
    *('"' + r"\u202e\u200b\ufeff" * 5 + '"', '"' + "\U0001d518" * 30 + '"'),
    *('"' + r"\u0301" * 200 + '"', '"<s></s><unk>▁▁"', '"' + "x" * 3000 + '"'),
    '"{name} <b>%s</b> 12,5"',
)
_DATATYPES = (
    *("BYTES", "INT32", "INT64", "FP32", "FP64", "FP16", "BF16", "BOOL", "UINT8"),
    *("STRING", "INVALID", ""),
)
_SMALL_SHAPES: tuple[list[int], ...] = (
    *([1, 1], [1, 1], [1, 1], [1], [], [0], [1, 0], [0, 1], [2, 1], [1, 2], [-1], [1, -1]),
    *([1, 1, 1], [128, 1], [129, 1], [1, 100_001], [1] * 64),
)
_HUGE_SHAPES: tuple[list[int], ...] = ([2**32, 2**32], [2**62, 4], [1, 2**40], [2**31, 1])
_BOMB_BYTES = 50_000_000


def request(
    path: str,
    body: bytes,
    headers: Sequence[bytes] = (),
    method: bytes = b"POST",
    version: bytes = b"HTTP/1.1",
    length: object = None,
) -> bytes:
    """A request; `length` replaces the body's actual length, and False omits it."""
    lines = [b"%s %s %s" % (method, path.encode(), version), b"Host: x"]
    if length is not False:
        lines.append(b"Content-Length: %s" % str(len(body) if length is None else length).encode())
    return b"\r\n".join([*lines, *headers]) + b"\r\n\r\n" + body


def json_body(chance: Random) -> bytes:
    """JSON with damaged texts and options."""
    parts = ['"text_input": ' + chance.choice(_TEXTS)]
    if chance.random() < 0.3:
        parts.append('"target_input": ' + chance.choice(_TEXTS))
    for _ in range(chance.choice((0, 0, 1, 1, 1, 2, 2, 3))):
        parts.append(f'"{chance.choice(OPTIONS)}": {chance.choice(_VALUES)}')
    if chance.random() < 0.2:
        option = f'"{chance.choice(OPTIONS)}": {chance.choice(_VALUES)}'
        parts.append(f'"parameters": {{{option}}}')
    chance.shuffle(parts)
    return ("{" + ", ".join(parts) + "}").encode()


def mutated(chance: Random, data: bytes) -> bytes:
    """Bytes with up to five changes: replaced, removed, inserted, repeated."""
    mutant = bytearray(data)
    for _ in range(chance.randrange(1, 6)):
        if not mutant:
            break
        at, how = chance.randrange(len(mutant)), chance.randrange(4)
        if how == 0:
            mutant[at] = chance.randrange(256)
        elif how == 1:
            del mutant[at : at + chance.randrange(1, 8)]
        elif how == 2:
            mutant[at:at] = chance.randbytes(chance.randrange(1, 8))
        else:
            mutant[at:at] = mutant[max(0, at - 20) : at]
    return bytes(mutant)


def _path(chance: Random) -> str:
    action = chance.choice(("generate", "generate", "generate_stream", "infer"))
    return f"/v2/models/{chance.choice(MODELS)}/{action}"


def _post(chance: Random, body: bytes, *headers: bytes, length: object = None) -> list[Step]:
    return [request(_path(chance), body, headers, length=length)]


def _options(chance: Random) -> list[Step]:
    return _post(chance, json_body(chance))


def _mutated_json(chance: Random) -> list[Step]:
    return _post(chance, mutated(chance, json_body(chance)))


def _not_utf8(chance: Random) -> list[Step]:
    wrong = (b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80", b"\xe2\x82")
    return _post(chance, b'{"text_input": "a ' + chance.choice(wrong) + b' b"}')


def _deeply_nested(chance: Random) -> list[Step]:
    depth = chance.choice((10, 100, 1000, 10_000, 100_000, 500_000))
    begin, end = chance.choice(((b"[", b"]"), (b'{"a":', b"}")))
    nested = begin * depth + b"1" + end * depth * chance.randrange(2)
    return _post(chance, b'{"text_input": ' + nested + b"}")


def _repeated_keys(chance: Random) -> list[Step]:
    first, second = chance.sample(_VALUES, 2)
    body = (
        f'{{"text_input": "a", "text_input": "b", "beam_width": {first}, "beam_width": {second}}}'
    )
    return _post(chance, body.encode())


def _infer_json(chance: Random) -> list[Step]:
    body, _ = _tensors(chance, binary=False)
    return [request(f"/v2/models/{chance.choice(MODELS)}/infer", body)]


def _infer_binary(chance: Random) -> list[Step]:
    head, blobs = _tensors(chance, binary=True)
    wrong = (0, len(head) - 1, len(head) + 1, len(head) + len(blobs) + 1, -1, 2**31, 2**63, 2**64)
    stated = chance.choice((*[len(head)] * 6, *wrong, "x", ""))
    header = f"Inference-Header-Content-Length: {stated}".encode()
    return [request(f"/v2/models/{chance.choice(MODELS)}/infer", head + blobs, [header])]


def _tensors(chance: Random, binary: bool) -> tuple[bytes, bytes]:
    """JSON of an `infer` request, and the binary data after it."""
    names = ["text_input", *chance.sample(OPTIONS, chance.randrange(4))]
    names += ["target_input"] * (chance.random() < 0.3) + ["text_input"] * (chance.random() < 0.05)
    inputs, blobs = [], []
    for name in names[chance.random() < 0.05 :]:
        in_blob = binary and chance.random() < 0.8
        shapes = _SMALL_SHAPES + _HUGE_SHAPES if in_blob else _SMALL_SHAPES
        datatype = chance.choice(_DATATYPES) if chance.random() < 0.4 else "BYTES"
        tensor: dict[str, Any] = {"name": name, "shape": chance.choice(shapes)}
        tensor["datatype"] = datatype
        if in_blob:
            blobs.append(_blob(chance, datatype))
            tensor["parameters"] = {"binary_data_size": _size(chance, len(blobs[-1]))}
        else:
            tensor["data"] = _data(chance)
        inputs.append(tensor)
    body: dict[str, Any] = {"inputs": inputs}
    if chance.random() < 0.3:
        body["outputs"] = chance.choice(_OUTPUTS)
    if chance.random() < 0.3:
        body["parameters"] = chance.choice(_PARAMETERS)
    if chance.random() < 0.1:
        body["id"] = chance.choice(("x", "x" * 10_000, 5, None, "\r\nX: y"))
    return json.dumps(body).encode(), b"".join(blobs)


_OUTPUTS: tuple[Any, ...] = (
    *([], [{}], "x", [{"name": "text_output"}], [{"name": "x"}], [{"name": "text_output"}] * 50),
    [{"name": "text_output", "parameters": {"binary_data": True}}],
    [{"name": "text_output", "parameters": {"shared_memory_region": "r"}}],
)
_PARAMETERS: tuple[Any, ...] = (
    *({}, [], 1, {"timeout": -1}, {"timeout": 1}, {"timeout": "x"}, {"binary_data_output": True}),
    *({"sequence_id": 1, "sequence_start": True}, {"priority": 5}, {"queue_priority": 1}),
    *({"x": [1]}, {"beam_width": 1}, {"seed": 2**64}),
)


def _blob(chance: Random, datatype: str) -> bytes:
    if datatype != "BYTES":
        return chance.randbytes(chance.choice((0, 1, 2, 3, 4, 8, 16)))
    text = chance.choice((b"Good morning.", b"de", b"", b"\xff\xfe", b"x" * 1000))
    stated = chance.choice((*[len(text)] * 4, len(text) + 1, 0, 2**31, 2**32 - 1, 5))
    blob = (struct.pack("<I", stated) + text) * chance.choice((1, 1, 1, 1, 2, 4))
    return blob[: chance.randrange(len(blob) + 1)] if chance.random() < 0.1 else blob


def _size(chance: Random, size: int) -> object:
    return chance.choice((*[size] * 5, size + 1, 0, -1, 2**31, 2**63, 2**64 - 1, "x", 1.5))


def _data(chance: Random) -> Any:
    if chance.random() < 0.4:
        return ["Good morning."]
    try:
        value = json.loads(chance.choice(_VALUES + _TEXTS))
    except ValueError:
        return "nan"
    return "nan" if isinstance(value, float) and not math.isfinite(value) else value


def _wrong_length(chance: Random) -> list[Step]:
    size = len(BODY)
    wrong = (0, 1, size - 1, size + 10, -1, 2**31, 2**32, 2**63, 2**64)
    return _post(chance, BODY, length=chance.choice((*wrong, "x", "5,5", "0x10", " 10", "+5", "")))


def _two_lengths(chance: Random) -> list[Step]:
    return _post(chance, BODY, b"Content-Length: 5")


def _length_and_chunks(chance: Random) -> list[Step]:
    body = b'5\r\n{"a":\r\n0\r\n\r\n' + BODY
    return _post(chance, body, b"Transfer-Encoding: chunked")


def _chunks(chance: Random) -> list[Step]:
    body, sent = json_body(chance), b""
    while body:
        size = chance.randrange(1, 30)
        extension = chance.choice((b"", b"", b";x=y", b" "))
        sent += b"%x%s\r\n%s\r\n" % (len(body[:size]), extension, body[:size])
        body = body[size:]
    wrong = (b"0\r\nX: y\r\n\r\n", b"", b"-1\r\n", b"f" * 16 + b"\r\n", b"g\r\n", b"7fffffff\r\na")
    sent += chance.choice((b"0\r\n\r\n",) * 3 + wrong)
    return _post(chance, sent, b"Transfer-Encoding: chunked", length=False)


def _many_chunks(chance: Random) -> list[Step]:
    sent = b"1\r\n \r\n" * 5000 + b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    return _post(chance, sent, b"Transfer-Encoding: chunked", length=False)


def _slow(chance: Random) -> list[Step]:
    (whole,) = _post(chance, BODY)
    assert isinstance(whole, bytes)
    at = chance.randrange(1, len(whole))
    return [whole[:at], chance.choice((0.05, 0.3, 1.0)), whole[at:]]


def _part(chance: Random) -> bytes:
    whole = request(_path(chance), json_body(chance))
    return whole[: chance.randrange(1, len(whole))]


def _half_closed(chance: Random) -> list[Step]:
    return [_part(chance), End.HALF_CLOSE]


def _cut(chance: Random) -> list[Step]:
    return [_part(chance), End.CLOSE]


def _reset(chance: Random) -> list[Step]:
    return [*_options(chance), End.RESET]


def _pipelined(chance: Random) -> list[Step]:
    bodies = (chance.choice((BODY, json_body(chance))) for _ in range(chance.randrange(2, 12)))
    return [b"".join(request(_path(chance), body) for body in bodies)]


def _large_headers(chance: Random) -> list[Step]:
    if chance.random() < 0.25:
        path = "/" + "a" * chance.choice((9000, 200_000))
        return [request(path, BODY)]
    headers = chance.choice(
        (
            [b"X-Big: " + b"a" * chance.choice((8000, 70_000, 500_000))],
            [b"X-%d: y" % number for number in range(chance.choice((100, 2000)))],
            [b"X" * chance.choice((9000, 100_000)) + b": y"],
        )
    )
    return _post(chance, BODY, *headers)


def _versions(chance: Random) -> list[Step]:
    versions = (b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/9.9", b"FTP/1.1", b"", b"HTTP/1.1 x")
    return [request(_path(chance), BODY, version=chance.choice(versions))]


_PATHS = (
    *("/v2", "/v2/health/ready", "/v2/models/translate/config", "/v2/models/translate/stats"),
    *("/v2/repository/index", "/v2/logging", "/v2/systemsharedmemory/status", "/metrics"),
    *("/v2/models/translate/trace/setting", "/v2/models/..%2f..%2fx/infer", "/v2/models/%00/infer"),
    *("/v2/models/translate/versions/99999999999999999999/infer", "//", "*"),
    *("/v2/models/translate/versions/-1/infer", "http://a/v2/health/ready"),
)
_METHODS = (
    *(b"GET", b"PUT", b"DELETE", b"HEAD", b"OPTIONS", b"TRACE", b"CONNECT", b"PATCH", b"POST"),
    *(b"get", b"PROPFIND", b"\x00\x01"),
)


def _methods(chance: Random) -> list[Step]:
    method = chance.choice(_METHODS)
    return [request(chance.choice(_PATHS), chance.choice((b"", BODY)), method=method)]


def _compressed(chance: Random) -> list[Step]:
    body, coding = chance.choice(
        (
            (gzip.compress(BODY, mtime=0), b"gzip"),
            (gzip.compress(BODY, mtime=0)[:-5], b"gzip"),
            (gzip.compress(BODY, mtime=0) + chance.randbytes(30), b"gzip"),
            (gzip.compress(gzip.compress(BODY, mtime=0), mtime=0), b"gzip, gzip"),
            (zlib.compress(BODY), b"deflate"),
            (chance.randbytes(100), b"gzip"),
            (BODY, b"gzip"),
            (BODY, b"br"),
        )
    )
    accepted = chance.choice((b"gzip", b"deflate", b"br", b"*", b"gzip;q=0"))
    return _post(chance, body, b"Content-Encoding: " + coding, b"Accept-Encoding: " + accepted)


def _bomb(chance: Random) -> list[Step]:
    pack = zlib.compressobj(9, wbits=chance.choice((31, 15)))
    body = pack.compress(b" " * _BOMB_BYTES) + pack.flush()
    coding = b"gzip" if body.startswith(b"\x1f\x8b") else b"deflate"
    return _post(chance, body, b"Content-Encoding: " + coding)


def _expect(chance: Random) -> list[Step]:
    return _post(
        chance, BODY, b"Expect: " + chance.choice((b"100-continue", b"200-ok", b"x" * 100))
    )


_HEADERS = (
    *(b"dragoman-closed: ", b"X\x00Y: z", b": novalue", b"NoColon", b"A: \xff\xfe", b" folded: x"),
    *(b"Connection: close", b"Connection: upgrade\r\nUpgrade: h2c", b"triton_grpc_error: true"),
    *(b"Inference-Header-Content-Length: 0", b"traceparent: 00-x", b"X-Request-Id: \x01\x02"),
    *(b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked, identity"),
    b"Content-Type: application/octet-stream",
)


def _odd_headers(chance: Random) -> list[Step]:
    return _post(chance, BODY, chance.choice(_HEADERS))


def _random_bytes(chance: Random) -> list[Step]:
    return [chance.randbytes(chance.randrange(1, 2000))]


def _large_text(chance: Random) -> list[Step]:
    text = b"a" * chance.choice((200_000, 3_000_000))
    split = chance.choice((b"true", b"false"))
    return _post(chance, b'{"text_input": "%s", "split_sentences": %s}' % (text, split))


def _many_texts(chance: Random) -> list[Step]:
    texts = b",".join([b'""'] * chance.choice((20_001, 100_001)))
    return _post(chance, b'{"text_input": [' + texts + b'], "beam_width": 1}')


KINDS = (
    Kind("options", 30, _options, True),
    Kind("mutated JSON", 18, _mutated_json, True),
    Kind("infer, JSON", 18, _infer_json, True),
    Kind("infer, binary", 18, _infer_binary, True),
    Kind("not UTF-8", 3, _not_utf8, True),
    Kind("deeply nested", 3, _deeply_nested, True),
    Kind("repeated keys", 1, _repeated_keys, True),
    Kind("wrong length", 4, _wrong_length, False),
    Kind("two lengths", 1, _two_lengths, False),
    Kind("length and chunks", 1, _length_and_chunks, False),
    Kind("chunks", 5, _chunks, False),
    Kind("many chunks", 0.3, _many_chunks, False),
    Kind("slow", 1.5, _slow, False),
    Kind("half-closed", 3, _half_closed, False),
    Kind("cut", 4, _cut, False),
    Kind("reset", 4, _reset, False),
    Kind("pipelined", 3, _pipelined, False),
    Kind("large headers", 2, _large_headers, False),
    Kind("versions", 2, _versions, False),
    Kind("methods", 4, _methods, False),
    Kind("compressed", 4, _compressed, True),
    Kind("bomb", 0.15, _bomb, True),
    Kind("expect", 1, _expect, False),
    Kind("odd headers", 3, _odd_headers, False),
    Kind("random bytes", 3, _random_bytes, False),
    Kind("large text", 0.4, _large_text, True),
    Kind("many texts", 0.2, _many_texts, True),
)

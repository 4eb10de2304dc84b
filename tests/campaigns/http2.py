"""Raw HTTP/2 frames, for requests that no gRPC library sends.

Source: RFC 9113 (HTTP/2), section 4.1 and section 6; RFC 7541 (HPACK), section 6.2.2; "gRPC over
HTTP/2" in the documentation of gRPC.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Sequence
from enum import IntEnum

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
END_STREAM, END_HEADERS = 1, 4
_ENOUGH_BYTES = 1 << 20


class Type(IntEnum):
    """Types of frames."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


Header = tuple[bytes, bytes]


def frame(
    kind: int, flags: int, stream: int, body: bytes = b"", length: int | None = None
) -> bytes:
    """A frame; `length` replaces the body's actual length."""
    stated = len(body) if length is None else length
    return struct.pack(">I", stated)[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + body


def block(headers: Sequence[Header]) -> bytes:
    """Headers as literals without indexing and without Huffman codes."""
    return b"".join(b"\x00" + _string(name) + _string(value) for name, value in headers)


def call_headers(path: bytes, extra: Sequence[Header] = ()) -> list[Header]:
    """Headers of a gRPC call."""
    return [
        *((b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"x")),
        *((b"content-type", b"application/grpc"), (b"te", b"trailers")),
        *extra,
    ]


def call(path: bytes, message: bytes, extra: Sequence[Header] = (), settings: bytes = b"") -> bytes:
    """All bytes of a connection with one unary call.

    Args:
        path: of the method.
        message: protobuf.
        extra: more headers.
        settings: the client's, each a number of 2 bytes and a value of 4.
    """
    data = b"\0" + struct.pack(">I", len(message)) + message
    return (
        PREFACE
        + frame(Type.SETTINGS, 0, 0, settings)
        + frame(Type.HEADERS, END_HEADERS, 1, block(call_headers(path, extra)))
        + frame(Type.DATA, END_STREAM, 1, data)
    )


def exchange(port: int, sent: bytes, wait_s: float) -> bytes:
    """Send bytes, and return the response until the other side closes or is silent."""
    received = b""
    # A server may refuse or reset such a connection, or send nothing; keep what it sent so far.
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", port), 10.0) as client,
    ):
        client.settimeout(wait_s)
        client.sendall(sent)
        while len(received) < _ENOUGH_BYTES and b"grpc-status" not in received:
            part = client.recv(65536)
            if not part:
                break
            received += part
    return received


def has_message(received: bytes) -> bool:
    """Whether a frame with data was received; a gRPC error has none."""
    at = 0
    while at + 9 <= len(received):
        length = int.from_bytes(received[at : at + 3], "big")
        if received[at + 3] == Type.DATA and length > 0:
            return True
        at += 9 + length
    return False


def _string(text: bytes) -> bytes:
    """A string with its length, an integer with a prefix of seven bits."""
    length = len(text)
    if length < 127:
        return bytes((length,)) + text
    coded = bytearray((127,))
    length -= 127
    while length >= 128:
        coded.append(length % 128 + 128)
        length //= 128
    return bytes((*coded, length)) + text

"""Requests as raw HTTP/2 frames that the libraries refuse to send."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Mapping

from tests.campaigns.http2 import END_HEADERS, END_STREAM, PREFACE, Type, frame


def literal(name: bytes, value: bytes, representation: int = 0x00) -> bytes:
    """A header field in HPACK: a literal without Huffman code.

    Args:
        name: at most 126 bytes.
        value: at most 126 bytes.
        representation: 0x00 without indexing, 0x10 never indexed, 0x40 with indexing.

    Source: RFC 7541, section 6.2.
    """
    assert max(len(name), len(value)) < 127  # one byte of length
    return bytes([representation, len(name)]) + name + bytes([len(value)]) + value


def request_frames(
    path: str,
    extra: bytes = b"",
    *,
    scheme: bytes = b"http",
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """The start of a connection, and the header frame of a gRPC request as stream 1.

    Args:
        path: of the method.
        extra: further header fields in HPACK.
        scheme: `http` or `https`.
        headers: further header fields.
    """
    fields = {
        ":method": b"POST",
        ":scheme": scheme,
        ":path": path.encode(),
        ":authority": b"localhost",
        "content-type": b"application/grpc",
        "te": b"trailers",
    }
    fields |= {name: value.encode() for name, value in (headers or {}).items()}
    block = b"".join(literal(name.encode(), value) for name, value in fields.items()) + extra
    preface = PREFACE + frame(Type.SETTINGS, 0, 0)
    return preface + frame(Type.HEADERS, END_HEADERS, 1, block)


def message_frame(message: bytes) -> bytes:
    """The only message of a gRPC request as stream 1."""
    return frame(Type.DATA, END_STREAM, 1, struct.pack(">BI", 0, len(message)) + message)


def end_of_stream(connection: socket.socket) -> bytes:
    """Read until a frame ends the stream or the connection.

    Returns:
        The payload of that frame: trailers, or a reset; empty if there was none.
    """
    stream = connection.makefile("rb")
    with contextlib.suppress(ConnectionResetError):  # the server may end the whole connection
        while len(head := stream.read(9)) == 9:
            kind, flags = head[3], head[4]
            payload = stream.read(int.from_bytes(head[:3]))
            ends = kind in (Type.RST_STREAM, Type.GOAWAY)
            if ends or (kind == Type.HEADERS and flags & END_STREAM):
                return payload
    return b""

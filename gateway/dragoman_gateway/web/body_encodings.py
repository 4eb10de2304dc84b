"""Bodies that are compressed, or not in UTF-8: decoded here, or refused by name."""

from __future__ import annotations

import codecs
import json
import zlib
from collections.abc import Callable

from dragoman_documents.core.encodings import codec_name

from dragoman_gateway.core.errors import InvalidInput, WrongMediaType

UTF_8 = "utf-8"
_PLAIN = ("", "identity")
_GZIP = ("gzip", "x-gzip")
_GZIP_FORMAT = 16 + zlib.MAX_WBITS
_CHUNK_BYTES = 1 << 16
_MARKS = (
    (codecs.BOM_UTF8, UTF_8),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks; that of UTF-32 begins like that of UTF-16."""
_SINGLE_BYTE = frozenset(
    ("ascii", "koi8-r", "koi8-u", *(f"cp{page}" for page in range(1250, 1259)))
) | {f"iso8859-{part}" for part in range(1, 17)}
_ASCII_BASED = _SINGLE_BYTE | {UTF_8, "euc_jp", "euc_kr", "shift_jis", "big5", "gbk", "gb18030"}
"""Encodings in which ASCII characters have their own bytes, by their names in Python."""
_WIDE = frozenset(f"utf-{bits}{end}" for bits in (16, 32) for end in ("", "-le", "-be"))
_MOST_SHOWN = 40


def check_not_encoded(content_encoding: str) -> None:
    """Refuse a body that is compressed.

    Raises:
        WrongMediaType: it is.
    """
    if content_encoding not in _PLAIN:
        raise WrongMediaType(
            f"content encoding {content_encoding[:_MOST_SHOWN]!r} is not supported here: "
            "send the body without it"
        )


def decompressed(body: bytes, content_encoding: str, hold: Callable[[int], None]) -> bytes:
    """Returns a body without its content encoding.

    Args:
        body: the body as it was sent.
        content_encoding: value of the header `Content-Encoding`.
        hold: called with the number of bytes of each decompressed part; raises if they are too
            many.

    Raises:
        WrongMediaType: the encoding is neither gzip nor identity.
        InvalidInput: the body is not complete gzip.
    """
    if content_encoding in _PLAIN:
        return body
    if content_encoding not in _GZIP:
        raise WrongMediaType(
            f"content encoding {content_encoding[:_MOST_SHOWN]!r} is not supported: "
            "send gzip, or the body as it is"
        )
    parts: list[bytes] = []
    reader = zlib.decompressobj(_GZIP_FORMAT)
    try:
        while not reader.eof:
            part = reader.decompress(body, _CHUNK_BYTES)
            if not part and not reader.eof:
                raise InvalidInput("the body is not valid gzip: it ends too early")
            hold(len(part))
            parts.append(part)
            body = reader.unconsumed_tail
    except zlib.error as error:
        raise InvalidInput(f"the body is not valid gzip: {error}") from error
    if reader.unused_data:
        raise InvalidInput("the body is not valid gzip: it has more bytes after its end")
    return b"".join(parts)


def in_utf_8(content: bytes, charset: str | None) -> bytes:
    """Returns a body in UTF-8, without a byte order mark.

    Args:
        content: a body that is not a form. A byte order mark is more reliable than the charset, and
            JSON without both is recognized as UTF-16 or UTF-32 by its zero bytes (RFC 4627).
        charset: charset of the content type, if any.

    Raises:
        WrongMediaType: the charset is not supported.
        InvalidInput: the body is not valid in its charset.
    """
    begin = content[:4]
    if charset is None and begin.isascii() and b"\0" not in begin:
        return content
    for mark, name in _MARKS:
        if content.startswith(mark):
            charset = name
            content = content.removeprefix(mark) if name == UTF_8 else content
            break
    else:
        if charset is None:
            charset = json.detect_encoding(begin)
        charset = encoding_of(charset, _ASCII_BASED | _WIDE)
    if charset in (UTF_8, "ascii"):
        return content
    try:
        return content.decode(charset).encode()
    except UnicodeError as error:
        raise InvalidInput(f"the body is not valid {charset}: {error}") from error


def form_encoding(charset: str | None) -> str:
    """Returns the encoding of a form's fields, which are percent-encoded.

    Args:
        charset: charset of the content type; None: UTF-8.

    Raises:
        WrongMediaType: the charset is not supported.
    """
    return UTF_8 if charset is None else encoding_of(charset, _ASCII_BASED)


def encoding_of(charset: str, known: frozenset[str]) -> str:
    """Returns Python's name of an encoding.

    Raises:
        WrongMediaType: it is none of the known ones.
    """
    name = codec_name(charset)
    if name not in known:
        raise WrongMediaType(f"charset {charset[:_MOST_SHOWN]!r} is not supported: send UTF-8")
    return name

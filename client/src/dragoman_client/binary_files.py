"""Binary files: detected by their first bytes; compressed ones can be read."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

_BEGINS = (
    (b"PK\x03\x04", "a ZIP archive, as DOCX, ODT and EPUB are"),
    (b"%PDF-", "a PDF"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document, as DOC and XLS are"),
    (rb"{\rtf", "an RTF document"),
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
)
_COMPRESSED = (
    (b"\x1f\x8b", "gzip"),
    (b"\xfd7zXZ\0", "xz"),
    *((b"BZh%d1AY&SY" % level, "bzip2") for level in range(1, 10)),
    (b"\x28\xb5\x2f\xfd", "zstd"),
)
_READERS: dict[str, Callable[[Any], Any]] = {
    "gzip": gzip.open,
    "xz": lzma.open,
    "bzip2": bz2.open,
}
HEAD_BYTES = 16
"""Number of first bytes that tell what a file is."""


def check_not_binary(begin: bytes, name: str) -> None:
    """Refuse a binary file.

    Args:
        begin: first bytes of the file.
        name: name of the file, for the message.

    Raises:
        ValueError: the file is binary; the message names its type.
    """
    if program := _compressed_by(begin):
        raise ValueError(f"{name} is compressed by {program}: decompress it first")
    for signature, kind in _BEGINS:
        if begin.startswith(signature):
            raise ValueError(f"{name} is {kind}: save its content as text, HTML or XML")


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader]:
    """Opens a file, or the content of one that is compressed by gzip, xz or bzip2.

    Raises:
        OSError: the file cannot be read.
        ValueError: the compressed file is damaged.
    """
    with path.open("rb") as file:
        program = _compressed_by(file.peek(HEAD_BYTES)) or ""
        if program not in _READERS:
            yield file
            return
        try:
            with cast("BufferedReader", _READERS[program](file)) as content:
                yield content
        except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
            raise ValueError(f"{path}: a damaged file of {program}: {error}") from error


def _compressed_by(begin: bytes) -> str | None:
    """The name of the program that compressed a file; None: it is not compressed."""
    return next((name for start, name in _COMPRESSED if begin.startswith(start)), None)

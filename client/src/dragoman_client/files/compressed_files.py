"""Compressed files: detected by their first bytes, and read."""

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


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader]:
    """Opens a file, or the content of one that is compressed by gzip, xz or bzip2.

    Raises:
        OSError: the file cannot be read.
        ValueError: the compressed file is damaged.
    """
    with path.open("rb") as file:
        program = compression_of(file.peek(HEAD_BYTES)) or ""
        if program not in _READERS:
            yield file
            return
        try:
            with cast("BufferedReader", _READERS[program](file)) as content:
                yield content
        except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
            raise ValueError(f"{path}: a damaged file of {program}: {error}") from error


def compression_of(begin: bytes) -> str | None:
    """The name of the program that compressed a file; None: it is not compressed."""
    return next((name for start, name in _COMPRESSED if begin.startswith(start)), None)

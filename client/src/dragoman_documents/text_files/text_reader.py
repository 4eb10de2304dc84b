"""Reads text files, whose formats need the whole file before the first text is known."""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Final

from dragoman_documents.core.segments import Raw, Segment

MOST_BYTES: Final = 1 << 23
"""A longer file is refused, because it is held in memory."""
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class TextReader(ABC):
    """Reads a file in UTF-8, or in UTF-16 with a byte order mark, which is kept.

    Attributes:
        warnings: see `Reader`.
    """

    def __init__(self) -> None:
        """Start before the first chunk."""
        self._content = bytearray()

    @property
    def warnings(self) -> list[str]:
        """See `Reader`."""
        return []

    def feed(self, chunk: bytes) -> list[Raw | Segment]:
        """See `Reader`.

        Raises:
            ValueError: the file is too long.
        """
        self._content += chunk
        if len(self._content) > MOST_BYTES:
            raise ValueError(f"the file has more than {MOST_BYTES >> 20} MB: split it")
        return []

    def close(self) -> Iterator[Raw | Segment]:
        """See `Reader`; raises `ValueError` if the file does not have its format."""
        mark, text, encoding = self.decoded()
        yield Raw(mark)
        yield from self.parts(text, encoding)

    def decoded(self) -> tuple[bytes, str, str]:
        """Returns the byte order mark, the text, and its encoding.

        Raises:
            ValueError: the file is not in that encoding.
        """
        content = bytes(self._content)
        mark, encoding = next(
            (pair for pair in _MARKS if content.startswith(pair[0])),
            (b"", self.encoding_of(content)),
        )
        try:
            text = content[len(mark) :].decode(encoding)
        except UnicodeDecodeError as error:
            message = f"byte {len(mark) + error.start}: not valid {encoding.upper()}"
            raise ValueError(f"{message}: convert the file, for example with iconv") from error
        return mark, text, encoding

    def encoding_of(self, _content: bytes) -> str:
        """Returns the encoding of a file without a byte order mark."""
        return "utf-8"

    @abstractmethod
    def parts(self, text: str, encoding: str) -> Iterator[Raw | Segment]:
        """Yield the parts of a file.

        Args:
            text: its content; line ends are those of the file.
            encoding: its encoding.

        Raises:
            ValueError: the text does not have the format; the message names the line.
        """

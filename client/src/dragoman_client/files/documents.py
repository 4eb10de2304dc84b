# ruff: noqa: RUF001  quotation marks of several languages
"""Running text, such as a book: split into paragraphs, with its layout kept."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from dragoman_options.arguments import OptionArguments
from dragoman_options.table import Translation

from dragoman_client.files.line_formats import LineFormat

_CHUNK_BYTES = 1 << 16
_BLANK_LINES = re.compile(r"(?<!\s)(?:[^\S\n]*\n){2,}")
_CLOSING = "[\"'”’»“)\\]]*"
_BEST_ENDS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        rf".*[.!?…:]{_CLOSING}[^\S\n]*\n",  # the end of a line and of a sentence
        rf".*\w{{4}}[.!?…]{_CLOSING}\s+(?=\S)",  # the end of a sentence, not just "Dr."
        r".*\n",
        r".*\s",
    )
)
"""Where to split a paragraph that is too long, the best place first."""


@dataclass(frozen=True)
class Document:
    """A text of any length; its translation has the same paragraphs, lines and white space.

    Attributes:
        most_characters: maximum length of a paragraph; a longer one is split at the end of a line
            or a sentence.

    Raises:
        ValueError: the maximum is below 1.
    """

    most_characters: int = 4000

    def __post_init__(self) -> None:
        """Validate the maximum."""
        if self.most_characters < 1:
            raise ValueError(f"most_characters is {self.most_characters}: give at least 1")

    def read(self, line: str) -> str:
        """Returns a paragraph without surrounding white space; see `LineFormat`."""
        return line.strip()

    def write(self, line: str, translation: Translation) -> str:
        """Returns the translation with the same white space; a refused paragraph is unchanged."""
        text = line.strip()
        if translation.finish_reason == "refused":
            return line
        begin = line.index(text)
        return line[:begin] + translation.text + line[begin + len(text) :]

    def paragraphs(self, file: BinaryIO, name: str) -> Iterator[str]:
        """Yield paragraphs with the blank lines after them; joined, they are the text.

        Args:
            file: a file in UTF-8; a byte order mark is skipped.
            name: name of the file, for messages.

        Raises:
            ValueError: the file is not UTF-8.
        """
        text, chunks = "", decoded(file, name)
        is_whole = False
        while text or not is_whole:
            # Read enough that a paragraph of the maximum length ends within the text.
            while not is_whole and len(text) <= 2 * self.most_characters:
                chunk = next(chunks, None)
                is_whole = chunk is None
                text += chunk or ""
            end = self._end(text)
            if end:
                yield text[:end]
            text = text[end:]

    def with_sentences(self, options: OptionArguments) -> OptionArguments:
        """Returns the options with sentence splitting, which keeps the layout.

        Raises:
            ValueError: the options switch sentence splitting off.
        """
        if options.get("split_sentences") is False:
            raise ValueError("split_sentences is False: a document is split into sentences")
        return {**options, "split_sentences": True}

    def _end(self, text: str) -> int:
        """Returns the end of the first paragraph, including the blank lines after it."""
        blank_lines = _BLANK_LINES.search(text, 0, 2 * self.most_characters)
        if blank_lines and blank_lines.start() <= self.most_characters:
            return blank_lines.end()
        if len(text) <= self.most_characters:
            return len(text)
        for pattern in _BEST_ENDS:
            match = pattern.match(text, 0, self.most_characters)
            if match and 2 * match.end() >= self.most_characters:
                return match.end()
        return self.most_characters


def line_end(form: LineFormat) -> str:
    """Returns the string to write after each line or paragraph of a format."""
    return "" if isinstance(form, Document) else "\n"


def decoded(file: BinaryIO, name: str) -> Iterator[str]:
    """Decode a text file in chunks; a byte order mark is skipped.

    Args:
        file: a file in UTF-8.
        name: name of the file, for messages.

    Raises:
        ValueError: the file is not UTF-8.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    read_bytes = 0
    while True:
        chunk = file.read(_CHUNK_BYTES)
        held_bytes = len(decoder.getstate()[0])
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            at = read_bytes - held_bytes + error.start
            fix = "convert the input, for example with iconv"
            raise ValueError(f"{name}, byte {at}: not valid UTF-8: {fix}") from error
        if not chunk:
            return
        yield text.removeprefix("\ufeff") if read_bytes == 0 else text
        read_bytes += len(chunk)

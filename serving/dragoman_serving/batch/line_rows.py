"""Files of lines: text, JSON objects, tab-separated columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from dragoman_client.files.file_formats import check_not_binary
from dragoman_client.files.file_translation import line_of
from dragoman_client.files.line_formats import JsonLines, LineFormat, PlainLines, TabColumns
from dragoman_options.table import Translation

from dragoman_serving.batch.chunks import Chunk, Outcome, RowError
from dragoman_serving.batch.storage import InputFile

_BLOCK_BYTES = 1 << 20
_HEAD_BYTES = 16


class Lines(Protocol):
    """A format of lines, with a form for lines without a translation.

    Attributes:
        suffix: file name suffix.
        form: format of the lines.
    """

    suffix: str
    form: LineFormat

    def write(self, line: str, translation: Translation) -> str:
        """Returns a line with its translation."""
        ...

    def write_error(self, line: str, reason: str) -> str:
        """Returns a line without a translation, with the reason."""
        ...


class TextLines:
    """Plain text: a line without a translation is left empty."""

    suffix = ".txt"

    def __init__(self) -> None:
        """Set the line format."""
        self.form: LineFormat = PlainLines()

    def write(self, line: str, translation: Translation) -> str:
        """See `Lines`."""
        return self.form.write(line, translation)

    def write_error(self, _line: str, _reason: str) -> str:
        """See `Lines`."""
        return ""


class JsonRows:
    """JSON objects: one without a translation gets a member `error`."""

    suffix = ".jsonl"

    def __init__(self, field: str) -> None:
        """Set the member with the text."""
        self._objects = JsonLines(field)
        self.form: LineFormat = self._objects

    def write(self, line: str, translation: Translation) -> str:
        """See `Lines`."""
        return self.form.write(line, translation)

    def write_error(self, line: str, reason: str) -> str:
        """See `Lines`. A line that is not an object becomes a member `line`."""
        try:
            return self._objects.write_with(line, {"error": reason})
        except ValueError:
            readable = line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            return json.dumps({"line": readable, "error": reason}, ensure_ascii=False)


class TabRows:
    """Tab-separated columns; adds two, the translation and the error, one of which is empty."""

    suffix = ".tsv"

    def __init__(self, column: int) -> None:
        """Set the number of the column with the text.

        Raises:
            ValueError: the number is below 1.
        """
        self.form: LineFormat = TabColumns(column)

    def write(self, line: str, translation: Translation) -> str:
        """See `Lines`."""
        return f"{self.form.write(line, translation)}\t"

    def write_error(self, line: str, reason: str) -> str:
        """See `Lines`."""
        return f"{line}\t\t{' '.join(reason.split())}"


class LineRowFormat:
    """Rows that are lines, which end only with line feeds; see `RowFormat`."""

    def __init__(self, lines: Lines) -> None:
        """Set the format of the lines."""
        self._lines = lines
        self.suffix = lines.suffix

    def cut(self, source: InputFile, most_rows: int) -> Sequence[tuple[int, int, int]]:
        """See `RowFormat`."""
        with source.storage.open(source.name) as file:
            check_not_binary(source.name, file.read(_HEAD_BYTES))
            file.seek(0)
            return _cuts(file, most_rows)

    def read(self, chunk: Chunk) -> LineRows:
        """See `RowFormat`."""
        with chunk.source.storage.open(chunk.source.name) as file:
            file.seek(chunk.begin)
            content = file.read(chunk.end - chunk.begin)
        return LineRows(self._lines, content, has_first=chunk.begin == 0)

    def count(self, written: bytes) -> int:
        """See `RowFormat`."""
        return written.count(b"\n")

    def join(self, parts: Iterator[bytes], _source: InputFile, file: BinaryIO) -> int:
        """See `RowFormat`."""
        rows = 0
        for part in parts:
            file.write(part)
            rows += self.count(part)
        return rows


@dataclass(frozen=True)
class _Row:
    line: str
    text: str | RowError


class LineRows:
    """The lines of a chunk; see `Rows`."""

    def __init__(self, lines: Lines, content: bytes, has_first: bool) -> None:
        """Read the lines.

        Args:
            lines: format of the lines.
            content: content of the chunk.
            has_first: whether it is the file's first chunk.
        """
        self._lines = lines
        raws = content.removesuffix(b"\n").split(b"\n")
        self._rows = [self._row(raw, has_first and number == 0) for number, raw in enumerate(raws)]
        self.texts: Sequence[str | RowError] = [row.text for row in self._rows]

    def written(self, outcomes: Sequence[Outcome]) -> bytes:
        """See `Rows`."""
        lines = (
            self._lines.write_error(row.line, outcome.reason)
            if isinstance(outcome, RowError)
            else self._lines.write(row.line, outcome)
            for row, outcome in zip(self._rows, outcomes, strict=True)
        )
        # Bytes that are not UTF-8 are written unchanged.
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")

    def _row(self, raw: bytes, is_first: bool) -> _Row:
        try:
            parsed = line_of(raw, self._lines.form, is_first)
        except ValueError as error:
            line = raw.rstrip(b"\r").decode("utf-8", "surrogateescape")
            return _Row(line, RowError(str(error)))
        return _Row(parsed.line, parsed.text)


def _cuts(file: BinaryIO, most_rows: int) -> list[tuple[int, int, int]]:
    """Begin, end and number of lines of each chunk."""
    cuts: list[tuple[int, int, int]] = []
    begin = rows = position = 0
    while block := file.read(_BLOCK_BYTES):
        at = 0  # bytes of the block that are in chunks
        while rows + (left := block.count(b"\n", at)) >= most_rows:
            for _ in range(most_rows - rows):
                at = block.index(b"\n", at) + 1
            cuts.append((begin, position + at, most_rows))
            begin, rows = position + at, 0
        rows += left
        position += len(block)
    if position > begin:
        ends = _ends_with_line_feed(file, position)
        cuts.append((begin, position, rows + (not ends)))
    return cuts


def _ends_with_line_feed(file: BinaryIO, size: int) -> bool:
    file.seek(size - 1)
    return file.read(1) == b"\n"

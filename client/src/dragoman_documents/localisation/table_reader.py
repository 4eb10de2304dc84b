"""Reads the chosen columns of tables: CSV, and columns separated by semicolons or tabs.

Source: https://www.rfc-editor.org/rfc/rfc4180
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from dragoman_options.markup import Markup

from dragoman_documents.core.segments import Raw, Segment, Spelling
from dragoman_documents.core.text_tags import tag_spans
from dragoman_documents.localisation.messages import message
from dragoman_documents.text_files.text_reader import TextReader

_DELIMITERS: Final = ",;\t|"


class TableReader(TextReader):
    """Reads a file whose first line has the names of the columns; see `Reader`."""

    def __init__(self, columns: Sequence[str]) -> None:
        """Start before the first chunk.

        Args:
            columns: names of the columns to translate.

        Raises:
            ValueError: there are none.
        """
        super().__init__()
        if not columns:
            raise ValueError(
                "a table needs the names of the columns to translate: give columns or --columns"
            )
        self._columns = columns

    def parts(self, text: str, encoding: str) -> Iterator[Raw | Segment]:
        """See `TextReader`.

        Raises:
            ValueError: a column is missing, or a quotation mark.
        """
        head = text.partition("\n")[0]
        signs = re.sub('"[^"]*"', "", head)
        delimiter = max(_DELIMITERS, key=lambda sign: (signs.count(sign), sign == ","))
        _field = re.compile(
            rf'(?:"((?:[^"]|"")*+)"|([^{re.escape(delimiter)}"\r\n][^{re.escape(delimiter)}\r\n]*+|))'
            rf"({re.escape(delimiter)}|\r\n?|\n|\Z)"
        )
        chosen: set[int] | None = None
        names: list[str] = []
        position = kept = column = 0
        while position < len(text):
            match = _field.match(text, position)
            if match is None:
                line = text.count("\n", 0, position) + 1
                raise ValueError(f"line {line}: a quotation mark is missing or one too many")
            group = 1 if match[1] is not None else 2
            written = match[group]
            if chosen is None:
                names.append(written.replace('""', '"').strip())
            elif column in chosen and any(map(str.isalpha, written)):
                yield Raw(text[kept : match.start(group)].encode(encoding))
                if group == 1:
                    yield from message(written, encoding, _unquoted, _quoted)
                else:
                    yield _plain(written, encoding, delimiter)
                kept = match.end(group)
            column += 1
            if match[3] != delimiter:
                chosen = self._chosen(names) if chosen is None else chosen
                column = 0
            position = match.end()
        if chosen is None:
            self._chosen(names)
        yield Raw(text[kept:].encode(encoding))

    def _chosen(self, names: list[str]) -> set[int]:
        known, columns = set(names), set(self._columns)
        missing = next((name for name in self._columns if name not in known), None)
        if missing is not None:
            shown = ", ".join(names)[:200]
            raise ValueError(f"line 1: there is no column {missing[:80]!r}, only {shown}")
        return {index for index, name in enumerate(names) if name in columns}


def _unquoted(written: str) -> str:
    return written.replace('""', '"')


def _quoted(text: str) -> str:
    return text.replace('"', '""').replace("\0", " ")


def _plain(written: str, encoding: str, delimiter: str) -> Segment:
    """The text of a field without quotes; a translation gets them if it needs them."""
    text = written.strip()
    begin = written.index(text)

    def write(translation: str) -> bytes:
        field = f"{written[:begin]}{translation}{written[begin + len(text) :]}"
        if any(character in field for character in f'{delimiter}"\r\n\0'):
            field = f'"{_quoted(field)}"'
        return field.encode(encoding, "replace")

    spelling = Spelling(encoding, str, write)
    return Segment(text, Markup(keep=tag_spans(text)), written.encode(encoding), spelling)

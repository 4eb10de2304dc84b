"""Files with a text on each line: plain lines, JSON objects, or tab-separated columns.

The output for a line is always one line, so that lines can be counted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dragoman_options.table import OUTPUTS, Assessed, Translation


class LineFormat(Protocol):
    """Reads a line, and writes it with its translation."""

    def read(self, line: str) -> str:
        """Returns the text of a line.

        Raises:
            ValueError: the line does not have this format.
        """

    def write(self, line: str, translation: Translation) -> str:
        """Returns a line with its translation."""


@dataclass(frozen=True)
class PlainLines:
    """The input has a text on each line, the output its translation."""

    def read(self, line: str) -> str:
        """See `LineFormat`."""
        return line

    def write(self, _line: str, translation: Translation) -> str:
        """See `LineFormat`."""
        return _in_one_line(translation)


@dataclass(frozen=True)
class PlainLinesToJson(PlainLines):
    """The input has a text on each line, the output a JSON object with all results."""

    def write(self, line: str, translation: Translation) -> str:
        """See `LineFormat`."""
        return _json({"source": line, **answer_as_json(translation)})


@dataclass(frozen=True)
class JsonLines:
    """The input has a JSON object on each line, the output the same object with its translation.

    Other members of an object, such as an id, are kept; `translation`, `output_tokens` and
    `finish_reason` are added.

    Attributes:
        field: name of the member with the text.
    """

    field: str = "text"

    def read(self, line: str) -> str:
        """See `LineFormat`."""
        members = self._object(line)
        text = members.get(self.field)
        if not isinstance(text, str):
            raise ValueError(f"no text under {self.field!r}")
        _json(members)  # fails before the translation if the object cannot be written
        return text

    def write(self, line: str, translation: Translation) -> str:
        """See `LineFormat`."""
        return self.write_with(line, answer_as_json(translation))

    def write_with(self, line: str, members: Mapping[str, Any]) -> str:
        """Returns a line with additional members."""
        return _json({**self._object(line), **members})

    def _object(self, line: str) -> dict[str, Any]:
        if not line.strip():
            return {self.field: ""}
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not JSON: {error}") from error
        if not isinstance(document, dict):
            raise ValueError("not a JSON object")
        return document


@dataclass(frozen=True)
class TabColumns:
    """The input has tab-separated columns; the output appends the translation as a column.

    Attributes:
        column: number of the column with the text, from 1.

    Raises:
        ValueError: the column is below 1.
    """

    column: int = 1

    def __post_init__(self) -> None:
        """Validate the column."""
        if self.column < 1:
            raise ValueError(f"column {self.column}: columns are counted from 1")

    def read(self, line: str) -> str:
        """See `LineFormat`."""
        columns = line.split("\t")
        if len(columns) < self.column:
            if not line.strip():
                return ""
            raise ValueError(f"{len(columns)} columns: there is no column {self.column}")
        return columns[self.column - 1]

    def write(self, line: str, translation: Translation) -> str:
        """See `LineFormat`."""
        column = _in_one_line(translation).replace("\t", " ")
        return f"{line}\t{column}"


def _in_one_line(translation: Translation) -> str:
    """Returns a translation with line breaks replaced by spaces."""
    return translation.text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


def answer_as_json(answer: Assessed) -> dict[str, Any]:
    """Returns the outputs that a translation or a score has as members of a JSON object."""
    members: dict[str, Any] = {}
    for output in OUTPUTS.values():
        value = getattr(answer, output.field, None)
        other = OUTPUTS.get(output.only_with)
        if value not in (None, ()) and (other is None or other.line in members):
            members[output.line] = output.codec.as_json(value)
    if isinstance(answer, Translation) and answer.alternatives:
        members["alternatives"] = list(map(answer_as_json, answer.alternatives))
    return members


def _json(values: dict[str, Any]) -> str:
    written = json.dumps(values, ensure_ascii=False, allow_nan=False)
    try:
        written.encode()
    except UnicodeEncodeError:
        raise ValueError("a string has half of a character (a lone surrogate)") from None
    return written

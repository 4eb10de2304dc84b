"""Files of which each line holds a text: plain lines, JSON objects, columns between tabs.

What is written is always one line, so that lines can be counted.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dragoman_client.assessment import alignments_as_json
from dragoman_client.pair_scoring import PairScore
from dragoman_client.request import Translation


class LineFormat(Protocol):
    """How a line is read, and how it is written with its translation."""

    def read(self, line: str) -> str:
        """The text of a line.

        Raises:
            ValueError: the line is not of this format.
        """

    def write(self, line: str, translation: Translation) -> str:
        """A line with its translation."""


@dataclass(frozen=True)
class PlainLines:
    """A text on each line; its translation on each line."""

    def read(self, line: str) -> str:
        """See `LineFormat`."""
        return line

    def write(self, line: str, translation: Translation) -> str:
        """See `LineFormat`."""
        return _in_one_line(translation)


@dataclass(frozen=True)
class PlainLinesToJson:
    """A text on each line; an object on each line with all that is known of it."""

    def read(self, line: str) -> str:
        """See `LineFormat`."""
        return line

    def write(self, line: str, translation: Translation) -> str:
        """See `LineFormat`."""
        return _json({"source": line, **answer_as_json(translation)})


@dataclass(frozen=True)
class JsonLines:
    """A JSON object on each line; the same object with its translation.

    Whatever else an object holds, such as an id, stays; `translation`, `output_tokens` and
    `finish_reason` are added.

    Attributes:
        field: which member holds the text.
    """

    field: str = "text"

    def read(self, line: str) -> str:
        """See `LineFormat`."""
        found = self._object(line)
        text = found.get(self.field)
        if not isinstance(text, str):
            raise ValueError(f"no text under {self.field!r}")
        _json(found)  # so that what cannot be written is told before it is translated
        return text

    def write(self, line: str, translation: Translation) -> str:
        """See `LineFormat`."""
        return self.write_with(line, answer_as_json(translation))

    def write_with(self, line: str, members: Mapping[str, Any]) -> str:
        """A line with more members."""
        return _json({**self._object(line), **members})

    def _object(self, line: str) -> dict[str, Any]:
        if not line.strip():
            return {self.field: ""}
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not JSON: {error}") from error
        if not isinstance(found, dict):
            raise ValueError("not a JSON object")
        return found


@dataclass(frozen=True)
class TabColumns:
    """Columns between tabs; the same columns and, behind them, the translation.

    Attributes:
        column: which one holds the text, counted from 1.

    Raises:
        ValueError: a column before the first.
    """

    column: int = 1

    def __post_init__(self) -> None:
        """Check the column."""
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
    """A translation in one line, whatever it holds."""
    return translation.text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


def answer_as_json(translation: Translation) -> dict[str, Any]:
    """What is known of a translation, by name, as it stands in a line of JSON."""
    found: dict[str, Any] = {
        "translation": translation.text,
        "output_tokens": translation.output_tokens,
        "finish_reason": translation.finish_reason,
    }
    if translation.score is not None:
        found["score"] = translation.score
    if translation.confidence is not None:
        found["confidence"] = translation.confidence
    if translation.warnings:
        found["warnings"] = list(translation.warnings)
    if translation.via is not None:
        found["via"] = translation.via
    found |= requested_as_json(translation)
    if translation.alternatives:
        found["alternatives"] = list(map(answer_as_json, translation.alternatives))
    return found


def requested_as_json(found: Translation | PairScore) -> dict[str, Any]:
    """What a request asked for beside scores, by name, as it stands in a line of JSON."""
    requested: dict[str, Any] = {}
    if found.token_scores is not None:
        requested["token_scores"] = dataclasses.asdict(found.token_scores)
    if found.alignments is not None:
        requested["alignments"] = alignments_as_json(found.alignments)
    if found.attention is not None:
        requested["attention"] = found.attention.as_json()
    if found.bundle is not None:
        requested["bundle"] = found.bundle
    if isinstance(found, Translation) and found.detected_language is not None:
        requested["detected_language"] = found.detected_language
        requested["detected_probability"] = found.detected_probability
    return requested


def _json(values: dict[str, Any]) -> str:
    written = json.dumps(values, ensure_ascii=False, allow_nan=False)
    try:
        written.encode()
    except UnicodeEncodeError:
        raise ValueError("a string holds half of a character (a lone surrogate)") from None
    return written

"""Finds the texts that formulas of a workbook quote: a cell with such a text is not translated.

`=COUNTIF(A:A,"Open")` counts nothing any more when the cells say "Offen".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from xml.parsers import expat

from dragoman_documents.office.run_profiles import STRINGS
from dragoman_documents.xml.its_rules import local_name

MOST_PATTERNS: Final = 100
"""With more patterns than these, no cell is translated."""
_LITERAL = re.compile(r'"((?:[^"]|"")*+)"')
_COMPARISON = re.compile(r"[<>=]+")
_WILDCARD = re.compile(r"(?<!~)[*?]")
_FORMULAS = frozenset({"f", "formula", "formula1", "formula2", "definedName"})
"""Elements whose text is a formula."""
_NAMES = {
    "tableColumn": ("name", "totalsRowLabel"),
    "cacheField": ("name",),
    "filter": ("val",),
    "customFilter": ("val",),
    "filter-condition": ("value",),
    "data-pilot-field": ("source-field-name",),
    "data-pilot-member": ("name",),
}
"""Attributes that repeat the text of a cell, by element."""
_REFERENCES = frozenset({"sheet", "definedName", "table", "named-range"})
"""Elements whose names a formula can take from a cell, by `INDIRECT`."""
_CONDITIONS = ("formula", "condition", "expression")
"""Attributes of OpenDocument with a formula."""


class Quoted:
    """The texts that formulas quote.

    Attributes:
        has_texts: whether the last part that was read has texts of its own.
    """

    def __init__(self) -> None:
        """Start without any."""
        self._texts: set[str] = set()
        self._references: set[str] = set()
        self._has_indirect = False
        self._patterns: set[tuple[str, ...]] = set()
        self.has_texts = False

    def __contains__(self, text: str) -> bool:
        """Whether a formula quotes a text; case is ignored, as in formulas."""
        folded = _folded(text)
        names = {folded, folded.replace(" ", "_")} if self._has_indirect else set()
        if folded in self._texts or len(self._patterns) > MOST_PATTERNS or names & self._references:
            return True
        return any(_matches(folded, pattern) for pattern in self._patterns)

    def read(self, chunks: Iterable[bytes]) -> None:
        """Read a part of a workbook.

        Raises:
            ValueError: it is not well-formed; the message says where.
        """
        self.has_texts = False
        formula: list[str] | None = None

        def start(name: str, attributes: dict[str, str]) -> None:
            nonlocal formula
            name = local_name(name)
            if name in _FORMULAS:
                formula = []
            self.has_texts |= name == "is"
            self._add_attributes(name, {local_name(key): attributes[key] for key in attributes})

        def end(_name: str) -> None:
            nonlocal formula
            if formula is not None:
                self._add_formula("".join(formula))
                formula = None

        def text(content: str) -> None:
            if formula is not None:
                formula.append(content)

        def refuse(*_declared: Any) -> None:
            raise ValueError("it has a document type")

        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = start, end
        parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = text, refuse
        try:
            for chunk in chunks:
                parser.Parse(chunk, False)
            parser.Parse(b"", True)
        except expat.ExpatError as error:
            message = expat.ErrorString(error.code)
            raise ValueError(f"line {error.lineno}, column {error.offset + 1}: {message}") from None

    def _add_attributes(self, element: str, values: Mapping[str, str]) -> None:
        for key in _NAMES.get(element, ()):
            self._add(STRINGS.decode(values.get(key, "")))
        if element in _REFERENCES:
            self._references.add(_folded(values.get("name", "")))
        for key in _CONDITIONS:
            self._add_formula(values.get(key, ""))

    def _add_formula(self, formula: str) -> None:
        self._has_indirect |= "INDIRECT(" in formula
        for written in _LITERAL.findall(formula):
            literal = written.replace('""', '"')
            self._add(literal)
            for part in literal.split(",") if "," in literal else ():  # a list of choices
                self._add(part)

    def _add(self, literal: str) -> None:
        folded = _folded(_COMPARISON.sub("", literal, count=1) if literal else "")
        for text in {_folded(literal), folded} - {""}:
            self._texts.add(text)
            if _WILDCARD.search(text) and len(self._patterns) <= MOST_PATTERNS:
                # "?" stands for one character; here for any number, so that more texts match.
                # What matches any text, such as "*", also matches its translation.
                pattern = tuple(re.split(r"[*?]+", text))
                self._patterns |= {pattern} if any(pattern) else set()


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _matches(text: str, pattern: tuple[str, ...]) -> bool:
    """Whether a text has the parts of a pattern, in order, with anything between them."""
    first, *middle, last = pattern
    if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
        return False
    position, end = len(first), len(text) - len(last)
    for part in middle:
        at = text.find(part, position, end)
        if at < 0:
            return False
        position = at + len(part)
    return True

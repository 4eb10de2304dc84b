"""Markup of a text as stand-off codes, with validation and JSON.

A code is an element, such as a link or bold type, as the offsets of its begin and end in the text.
The text itself has no tags, so nothing needs escaping, text is never mistaken for a tag, and
attributes stay in the program that read them.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from reprlib import repr as brief
from typing import Any, NamedTuple, Self

from dragoman_options.output import JsonValue

MOST_CODES = 10_000
"""Maximum number of codes of a text."""
SHAPE = '{"codes": [[begin, end, parent or null], ...], "keep": [[begin, end], ...]}'

Span = tuple[int, int]
"""Begin and end, in Unicode code points."""


class Code(NamedTuple):
    """An element in a text; an empty element has `begin == end`.

    Attributes:
        begin: offset of its first character.
        end: offset after its last character.
        parent: index of the innermost code that encloses it; None if no code does.
    """

    begin: int
    end: int
    parent: int | None = None


@dataclass(frozen=True)
class Markup:
    """The codes of a text, and the spans that its translation repeats verbatim.

    Attributes:
        codes: in document order: each code follows its parent and lies within it, and codes of one
            parent do not overlap.
        keep: spans to repeat, in order. No code begins or ends within one.
    """

    codes: tuple[Code, ...] = ()
    keep: tuple[Span, ...] = ()

    @classmethod
    def of(cls, value: Any) -> Self:
        """Markup from a JSON value.

        Args:
            value: `{"codes": [[begin, end, parent], ...], "keep": [[begin, end], ...]}`; both
                members and each parent are optional.

        Raises:
            ValueError: the value has another shape.
        """
        if not isinstance(value, Mapping) or not {"codes", "keep"}.issuperset(value):
            raise ValueError(f"{brief(value)}: give {SHAPE}")
        codes, keep = value.get("codes", ()), value.get("keep", ())
        for name, member in (("codes", codes), ("keep", keep)):
            if not _is_list(member):
                raise ValueError(f"{name} is {brief(member)}: give {SHAPE}")
        return cls(
            tuple(_code(index, code) for index, code in enumerate(codes)),
            tuple(_span("keep", index, span) for index, span in enumerate(keep)),
        )

    @classmethod
    def parse(cls, written: str) -> Self:
        """Read markup from JSON.

        Raises:
            ValueError: the text is not JSON, or has another shape.
        """
        try:
            value = json.loads(written)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not valid JSON: {error}") from error
        return cls.of(value)

    def __str__(self) -> str:
        """Returns the markup as JSON."""
        return json.dumps({"codes": self.codes, "keep": self.keep})

    def check(self, text: str) -> None:
        """Check that this is valid markup of a text.

        Raises:
            ValueError: the markup is not valid; the message names the code or the span, its value,
                and the problem.
        """
        if len(self.codes) > MOST_CODES:
            raise ValueError(f"{len(self.codes)} codes, more than {MOST_CODES}")
        self._check_codes(len(text))
        self._check_keep(len(text))

    def _check_codes(self, length: int) -> None:
        enclosing: list[int] = []
        """The codes that may enclose the next one, outermost first."""
        reached = 0
        """No code may begin before this offset."""
        for index, (begin, end, parent) in enumerate(self.codes):
            while enclosing and enclosing[-1] != parent:
                reached = max(reached, self.codes[enclosing.pop()].end)
            if parent is not None and not enclosing:
                raise ValueError(
                    f"code {index} has the parent {parent}: give null, the code before it, "
                    "or one that encloses that code"
                )
            last = length if parent is None else self.codes[parent].end
            if not 0 <= begin <= end <= last:
                where = (
                    f"0 to {length}" if parent is None else f"code {parent}, which ends at {last}"
                )
                raise ValueError(f"code {index} is {begin} to {end}: give a part of {where}")
            if begin < reached:
                raise ValueError(
                    f"code {index} begins at {begin}, before {reached}, where the code before it "
                    "ends or its parent begins"
                )
            reached = begin
            enclosing.append(index)

    def _check_keep(self, length: int) -> None:
        borders = sorted({offset for begin, end, _ in self.codes for offset in (begin, end)})
        reached = 0
        for index, (begin, end) in enumerate(self.keep):
            if not 0 <= begin < end <= length:
                raise ValueError(f"keep {index} is {begin} to {end}: give a part of 0 to {length}")
            if begin < reached:
                raise ValueError(f"keep {index} begins at {begin}, before keep {index - 1} ends")
            inside = bisect_right(borders, begin)
            if inside < len(borders) and borders[inside] < end:
                raise ValueError(
                    f"keep {index} is {begin} to {end}: a code begins or ends within it, "
                    f"at {borders[inside]}"
                )
            reached = end


@dataclass(frozen=True)
class PlacedCodes(JsonValue):
    """The positions of a text's codes in its translation.

    Attributes:
        codes: the span of each code in the translation, in the order of the source's codes.
        uncertain: number of codes whose position is a guess.
    """

    codes: tuple[Span, ...] = ()
    uncertain: int = 0

    @classmethod
    def parse(cls, written: str) -> Self:
        """Read placed codes from JSON: `{"codes": [[begin, end], ...], "uncertain": number}`."""
        value = json.loads(written)
        spans = tuple((int(begin), int(end)) for begin, end in value["codes"])
        return cls(spans, int(value["uncertain"]))


def _code(index: int, value: Any) -> Code:
    """A code from a JSON value."""
    has_parent = _is_list(value) and len(value) == 3
    parent = value[2] if has_parent else None
    if parent is not None and type(parent) is not int:
        raise ValueError(f"codes[{index}] is {brief(value)}: give {SHAPE}")
    return Code(*_span("codes", index, value[:2] if has_parent else value), parent)


def _span(name: str, index: int, value: Any) -> Span:
    """Two offsets from a JSON value."""
    if not _is_list(value) or len(value) != 2 or any(type(offset) is not int for offset in value):
        raise ValueError(f"{name}[{index}] is {brief(value)}: give {SHAPE}")
    begin, end = value
    return begin, end


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))

"""Suggestions in XLIFF: `alt-trans` elements of 1.2, and the matches module of 2.x.

Source: XLIFF 1.2 and 2.1 (OASIS)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from dragoman_documents.core.segments import Segment, Tag
from dragoman_documents.core.suggestions import (
    Suggestion,
    Suggestions,
    WithSuggestions,
    written_sides,
)
from dragoman_documents.xml.xml_spelling import ATTRIBUTE, in_attribute

MATCHES: Final = "matches"
"""Local name of the element of 2.x with the suggestions for a unit."""
_NAMESPACE: Final = "urn:oasis:names:tc:xliff:matches:2.0"
_REFERENCES: Final = ("dataRef", "dataRefStart", "dataRefEnd")
"""Attributes that refer to data of the unit; a match can only refer to its own."""


class IdentifiedText(NamedTuple):
    """A text that is a whole segment of a unit, and the segment's id; empty: it needs none."""

    segment: Segment
    id: str


class Layout(NamedTuple):
    """How elements are written.

    Attributes:
        encoding: encoding of the document.
        prefix: prefix of the names of XLIFF's elements, with its colon.
        indent: white space before an element.
    """

    encoding: str
    prefix: str
    indent: bytes

    def element(self, name: str, attributes: Mapping[str, str], content: bytes) -> bytes:
        """Returns an element without its empty attributes."""
        spelling = in_attribute(self.encoding, '"')
        written = (
            f' {key}="{spelling.write(value).decode(self.encoding)}"'
            for key, value in attributes.items()
            if value
        )
        begin, end = f"<{name}{''.join(written)}>", f"</{name}>"
        return begin.encode(self.encoding) + content + end.encode(self.encoding)

    def suggestion(
        self, name: str, attributes: Mapping[str, str], segment: Segment, suggestion: Suggestion
    ) -> bytes:
        """Returns an element with a similar text and its translation."""
        is_in_cdata = segment.spelling.write("<") == "<".encode(self.encoding)
        around = ("<![CDATA[", "]]>") if is_in_cdata else ("", "")
        begin, end = (part.encode(self.encoding) for part in around)
        content = b"".join(
            self.element(f"{self.prefix}{side}", {}, begin + written + end)
            for side, written in zip(
                ("source", "target"), written_sides(segment, suggestion), strict=True
            )
        )
        return self.indent + self.element(name, attributes, content)


def alternatives(texts: Sequence[IdentifiedText], layout: Layout) -> WithSuggestions:
    """Returns the position of `alt-trans` elements, behind a target.

    Args:
        texts: texts of the unit.
        layout: layout of the document.
    """

    def write(suggestions: Sequence[Suggestions]) -> bytes:
        return b"".join(
            layout.suggestion(
                f"{layout.prefix}alt-trans",
                {"mid": mid, "match-quality": f"{similar.similarity}%", "origin": similar.origin},
                segment,
                similar,
            )
            for (segment, mid), some in zip(texts, suggestions, strict=True)
            for similar in some
        )

    return WithSuggestions(b"", segments=[text.segment for text in texts], write=write)


def matches(
    texts: Sequence[IdentifiedText], layout: Layout, own_prefix: str | None
) -> WithSuggestions:
    """Returns the position of `match` elements, at the beginning of a unit.

    Args:
        texts: texts of the unit.
        layout: layout of the document.
        own_prefix: prefix of the element in which they are written; None: it must be written too.
    """
    prefix = "mtc:" if own_prefix is None else own_prefix

    def write(suggestions: Sequence[Suggestions]) -> bytes:
        written = b"".join(
            layout.suggestion(
                f"{prefix}match",
                {
                    "ref": f"#{identity}",
                    "type": "tm",
                    "origin": similar.origin,
                    "similarity": str(similar.similarity),
                },
                _without_references(segment),
                similar,
            )
            for (segment, identity), some in zip(texts, suggestions, strict=True)
            for similar in some
        )
        if own_prefix is not None:
            return written
        attributes = {f"xmlns:{prefix[:-1]}": _NAMESPACE}
        return layout.indent + layout.element(
            f"{prefix}{MATCHES}", attributes, written + layout.indent
        )

    return WithSuggestions(b"", segments=[text.segment for text in texts], write=write)


def _without_references(segment: Segment) -> Segment:
    """Returns a text whose tags do not refer to data of their unit."""
    encoding = segment.spelling.encoding

    def without(part: bytes) -> bytes:
        written = part.decode(encoding)
        return ATTRIBUTE.sub(
            lambda match: "" if match[1] in _REFERENCES else match[0], written
        ).encode(encoding)

    def of_tag(tag: Tag) -> Tag:
        parts = (without(part) if isinstance(part, bytes) else part for part in tag.parts)
        return tag._replace(parts=tuple(parts), closing=without(tag.closing))

    return replace(segment, tags=tuple(map(of_tag, segment.tags)))

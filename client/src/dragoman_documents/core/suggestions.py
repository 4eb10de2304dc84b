"""Suggestions: translations of similar texts, written beside the translation of a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dragoman_options.markup import Code, PlacedCodes, Span

from dragoman_documents.core.gaps import BREAK
from dragoman_documents.core.segments import Raw, Segment


@dataclass(frozen=True)
class Suggestion:
    """The translation of a text that is similar to another one.

    Attributes:
        source: the similar text, without tags.
        target: its translation.
        codes: elements of the similar text, in document order.
        placed: the span of each of them in the translation.
        similarity: percentage of the text that is equal.
        origin: name of the translation memory.
    """

    source: str
    target: str
    codes: tuple[Code, ...]
    placed: tuple[Span, ...]
    similarity: int
    origin: str


Suggestions = Sequence[Suggestion]
"""Suggestions for a text, the most similar one first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WithSuggestions(Raw):
    """Bytes that differ if there are suggestions for texts.

    Attributes:
        segments: the texts.
        write: returns the bytes with the suggestions for each text, of which one has some.
    """

    segments: Sequence[Segment]
    write: Callable[[Sequence[Suggestions]], bytes]


def written_sides(segment: Segment, suggestion: Suggestion) -> tuple[bytes, bytes]:
    """Returns the similar text and its translation, as they are written for a text.

    They have the tags of the text if their elements are the same, and otherwise no tags.

    Args:
        segment: the text.
        suggestion: a suggestion for it.
    """
    if _has_same_elements(segment, suggestion):
        own = tuple((begin, end) for begin, end, _ in suggestion.codes)
        sides = (suggestion.source, own), (suggestion.target, suggestion.placed)
        source, target = (segment.write(text, PlacedCodes(spans)) for text, spans in sides)
        return source, target
    words = (side.replace(BREAK, " ") for side in (suggestion.source, suggestion.target))
    source, target = map(segment.spelling.write, words)
    return source, target


def _has_same_elements(segment: Segment, suggestion: Suggestion) -> bool:
    """Whether the elements nest in the same way, and the ones that stand for words are equal."""
    codes, others = segment.markup.codes, suggestion.codes
    return len(codes) == len(others) and all(
        code.parent == other.parent
        and (code.begin == code.end) == (other.begin == other.end)
        and not (
            tag.is_opaque
            and segment.text[code.begin : code.end] != suggestion.source[other.begin : other.end]
        )
        for code, other, tag in zip(codes, others, segment.tags, strict=True)
    )

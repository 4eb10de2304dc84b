"""Pairs of a text and its translation, both with their elements as codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from dragoman_options.markup import Code, Markup, Span

from dragoman_documents.core.segments import Segment, Tag
from dragoman_documents.xml.xml_spelling import ATTRIBUTE

MOST_CHARACTERS: Final = 50_000
"""A longer text is not stored: no segment of a document is longer."""
_IDS: Final = ("x", "i", "id", "rid", "startRef")
"""Attributes with the id of an element, in TMX and XLIFF."""


@dataclass(frozen=True)
class Pair:
    """A text and its translation.

    Attributes:
        source: the text, without tags.
        target: its translation.
        codes: elements of the text, in document order.
        placed: the span of each of them in the translation.
    """

    source: str
    target: str
    codes: tuple[Code, ...] = ()
    placed: tuple[Span, ...] = ()


def pair_of(source: Segment, target: Segment) -> Pair | None:
    """Returns two segments as a pair.

    An element of the translation belongs to the one of the text with the same id, or without ids
    with the same tag.

    Returns:
        None if one of the two has elements that the other one lacks.
    """
    codes, target_codes = source.markup.codes, target.markup.codes
    waiting: dict[str, list[int]] = {}
    """The elements of the translation, by id."""
    for index, tag in enumerate(target.tags):
        waiting.setdefault(_identity(tag), []).append(index)
    matched: list[int] = []
    for code, tag in zip(codes, source.tags, strict=True):
        if not (indices := waiting.get(_identity(tag))):
            return None
        matched.append(indices.pop(0))
        target_code = target_codes[matched[-1]]
        parent = None if code.parent is None else matched[code.parent]
        is_empty, has_none = code.begin == code.end, target_code.begin == target_code.end
        if is_empty != has_none or target_code.parent != parent:
            return None
    if any(waiting.values()):
        return None
    placed = tuple(target_codes[index][:2] for index in matched)
    return Pair(source.text, target.text, codes, placed)


def _identity(tag: Tag) -> str:
    """Returns what the tags of an element have in common in both languages."""
    written = b"".join(part for part in tag.parts if isinstance(part, bytes)).replace(b"\0", b"")
    start = written.partition(b">")[0].decode("latin-1")
    attributes = {match[1]: match[0] for match in ATTRIBUTE.finditer(start)}
    return next((attributes[name] for name in _IDS if name in attributes), start).strip()


def normalized(text: str, codes: Sequence[Code] = ()) -> tuple[str, tuple[Code, ...]]:
    """Returns a text and its codes with each run of white space as one space, and none at the ends.

    Args:
        text: a text.
        codes: its elements.
    """
    text = storable(text)
    short = " ".join(text.split())
    if short == text or not codes:
        return short, tuple(codes)
    offsets: list[int] = []
    position = 0
    """Length of the short text so far."""
    is_after_space = False
    for character in text:
        if not character.isspace():
            position += is_after_space and position > 0
        offsets.append(position)
        is_after_space = character.isspace()
        position += not is_after_space
    offsets.append(position)
    moved = [Code(offsets[begin], offsets[end], parent) for begin, end, parent in codes]
    return short, tuple(moved)


def key_of(text: str, codes: Sequence[Code] = ()) -> int:
    """Returns a number that texts with equal words and equal codes have in common.

    Args:
        text: a text as `normalized` returns it.
        codes: its codes.
    """
    written = f"{text}\0{Markup(tuple(codes))}" if codes else text
    return int.from_bytes(blake2b(written.encode(), digest_size=8).digest(), signed=True)


def storable(text: str) -> str:
    """Returns a text with "?" for each lone surrogate, which no file can hold."""
    return text.encode("utf-8", "replace").decode()

"""A sentence with tags in its text, which are codes for as long as it is translated.

A tag that begins an element and the one that ends it are one code. A tag without its other half,
such as `<br>`, is a code that encloses nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from dragoman_options.markup import Code, Markup, PlacedCodes, Span

from dragoman_serving.markup.document_order import document_order
from dragoman_serving.markup.marked_texts import MarkedSentence
from dragoman_serving.request.placeholders import find_placeholders, is_tag, placeholder_spans

_MOST_TAGS = 256
"""More are terms, which the limit of tokens bounds: spaces are restored in a time that grows with
the square of the number of placeholders."""
_NAME = re.compile(r"</?([^\s/>]+)")


class Written(NamedTuple):
    """A text with tags, made of one without.

    Attributes:
        text: with tags.
        places: of each character of the other text, and of its end: the index in this one.
    """

    text: str
    places: Sequence[int]


class _Element(NamedTuple):
    """Indices of the tags that begin and end an element; one without content has no end."""

    begin: int
    end: int | None
    parent: int | None


@dataclass(frozen=True)
class TaggedSentence:
    """A sentence with tags.

    Attributes:
        source: the sentence, made of the text without tags.
        text: that text.
        markup: its codes.
        tags: of each code, what stands at its begin and at its end.
        placed: the codes in the translation, once they are known.
    """

    source: Written
    text: str
    markup: Markup
    tags: tuple[tuple[str, str], ...]
    placed: PlacedCodes | None = None

    @classmethod
    def of(cls, line: str) -> Self | None:
        """Take the tags out of a sentence.

        Args:
            line: the sentence, without line breaks.

        Returns:
            None if it has no tags, or too many, or if without them it has other placeholders.
        """
        spans = [span for span in placeholder_spans(line) if is_tag(line[slice(*span)])]
        if not 0 < len(spans) <= _MOST_TAGS:
            return None
        tags = [line[begin:end] for begin, end in spans]
        elements = _elements(tags)
        others = [one for one in find_placeholders(line) if not is_tag(one)]
        alone = {one.begin for one in elements if one.end is None}
        text, places, offsets = _without(line, spans, alone)
        if find_placeholders(text) != others:  # some touch, as in `1<b>2</b>`
            text, places, offsets = _without(line, spans, range(len(spans)))
        if find_placeholders(text) != others:
            return None
        codes = tuple(
            Code(offsets[begin], offsets[begin if end is None else end], parent)
            for begin, end, parent in elements
        )
        pairs = tuple((tags[begin], "" if end is None else tags[end]) for begin, end, _ in elements)
        return cls(Written(line, places), text, Markup(codes), pairs)

    @property
    def marked(self) -> MarkedSentence:
        """Its codes, as those of a text that is one sentence."""
        count = len(self.markup.codes)
        outside = (False,) * count
        indices = tuple(range(count))
        return MarkedSentence(0, len(self.text), self.text, indices, self.markup, outside, outside)

    def with_tags(self, others: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Its placeholders in their order, of those that are no tags."""
        rest = iter(others)
        all_of_them = find_placeholders(self.source.text)
        return tuple((one, one) if is_tag(one) else next(rest) for one in all_of_them)

    def with_placed(self, placed: PlacedCodes) -> Self:
        """The same with its codes in the translation."""
        return replace(self, placed=placed)

    def put_into(self, translation: str) -> Written:
        """The translation with its tags."""
        assert self.placed is not None
        parts: list[str] = []
        places: list[int] = []
        at = length = 0
        for offset, tag in self._insertions(self._spans(self.placed.codes)):
            places += range(length, length + offset - at)
            parts += translation[at:offset], tag
            length += offset - at + len(tag)
            at = offset
        places += range(length, length + len(translation) - at + 1)
        return Written("".join((*parts, translation[at:])), places)

    def _spans(self, placed: Sequence[Span]) -> list[Span]:
        """The codes' spans, of which those of tags without another half keep their order.

        Their other halves may be in the sentences before and behind.
        """
        spans = list(placed)
        alone: dict[int | None, list[int]] = defaultdict(list)
        for index, (code, (_, end)) in enumerate(zip(self.markup.codes, self.tags, strict=True)):
            if not end:
                alone[code.parent].append(index)
        for group in alone.values():
            in_order = sorted(placed[index] for index in group)
            for index, span in zip(group, in_order, strict=True):
                spans[index] = span
        return spans

    def _insertions(self, spans: Sequence[Span]) -> Iterator[tuple[int, str]]:
        """Tags of the translation in their order, each with the offset at which it is put."""
        enclosing: list[int] = []
        parents = [code.parent for code in self.markup.codes]
        for index in document_order(parents, spans):
            while enclosing and enclosing[-1] != parents[index]:
                yield self._closing(enclosing.pop(), spans)
            yield spans[index][0], self.tags[index][0]
            enclosing.append(index)
        for index in reversed(enclosing):
            yield self._closing(index, spans)

    def _closing(self, index: int, spans: Sequence[Span]) -> tuple[int, str]:
        return spans[index][1], self.tags[index][1]


def _elements(tags: Sequence[str]) -> list[_Element]:
    """The elements that tags make, in the order of their first tags."""
    names = [_name(tag) for tag in tags]
    ends: dict[int, int] = {}
    opened: list[int] = []
    open_of_name: defaultdict[str, int] = defaultdict(int)
    for index, (tag, name) in enumerate(zip(tags, names, strict=True)):
        if tag.startswith("</"):
            if not open_of_name[name]:
                continue
            while names[begin := opened.pop()] != name:
                open_of_name[names[begin]] -= 1
            open_of_name[name] -= 1
            ends[begin] = index
        elif not tag.endswith("/>"):
            opened.append(index)
            open_of_name[name] += 1
    found: list[_Element] = []
    enclosing: list[int] = []
    closing = set(ends.values())
    for index in range(len(tags)):
        if index in closing:
            enclosing.pop()
            continue
        parent = enclosing[-1] if enclosing else None
        if index in ends:
            enclosing.append(len(found))
        found.append(_Element(index, ends.get(index), parent))
    return found


def _name(tag: str) -> str:
    found = _NAME.match(tag)
    return found[1] if found else ""


def _without(
    line: str, spans: Sequence[Span], apart: Collection[int]
) -> tuple[str, list[int], list[int]]:
    """A sentence without tags.

    Args:
        line: the sentence.
        spans: of its tags.
        apart: indices of tags on both sides of which words stay apart.

    Returns:
        The text, the index in the sentence of each of its characters and its end, and the offset in
        the text of each tag.
    """
    parts: list[str] = []
    places: list[int] = []
    offsets: list[int] = []
    at = 0
    for index, (begin, end) in enumerate(spans):
        parts.append(line[at:begin])
        places += range(at, begin)
        offsets.append(len(places))
        at = end
        beside = line[max(begin - 1, 0) : begin], line[end : end + 1]
        if index in apart and all(one.strip() for one in beside):
            parts.append(" ")
            places.append(begin)
    places += range(at, len(line) + 1)
    return "".join((*parts, line[at:])), places, offsets

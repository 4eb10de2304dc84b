"""A sentence with tags in its text, which are handled as codes during translation.

The start tag and the end tag of an element are one code. A tag without a counterpart, such as
`<br>`, is an empty code. So are marks that enclose words, such as `**not**`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from dragoman_options.markup import Code, Markup, PlacedCodes, Span

from dragoman_serving.fidelity.literals import known_literals
from dragoman_serving.fidelity.paired_marks import Tag, tags_of
from dragoman_serving.fidelity.restored import Occurrence, Restored
from dragoman_serving.markup.document_order import document_order
from dragoman_serving.markup.marked_texts import MarkedSentence

_MOST_TAGS = 256
"""With more tags, all are literals instead. The time to restore spaces is quadratic in the number
of tags."""


class Written(NamedTuple):
    """A text with tags, and its relation to the text without tags.

    Attributes:
        text: the text with tags.
        places: for each character of the text without tags, and its end, the index in `text`.
    """

    text: str
    places: Sequence[int]


class _Element(NamedTuple):
    """Indices of an element's start and end tag; an empty element has no end tag."""

    begin: int
    end: int | None
    parent: int | None


@dataclass(frozen=True)
class TaggedSentence:
    """A sentence with tags.

    Attributes:
        source: the sentence with tags.
        text: the sentence without tags.
        markup: its codes.
        tags: the start and end tag of each code, whose spans are those in `source`.
        placed: the codes in the translation, once placed.
    """

    source: Written
    text: str
    markup: Markup
    tags: tuple[tuple[Tag, Tag | None], ...]
    placed: PlacedCodes | None = None

    @classmethod
    def of(
        cls,
        line: str,
        has_tags: bool = True,
        has_marks: bool = False,
        apart: Sequence[Span] = (),
    ) -> Self | None:
        """Remove the tags from a sentence.

        Args:
            line: the sentence, without line breaks.
            has_tags: whether it may have tags.
            has_marks: whether marks that enclose words are tags.
            apart: spans that have no marks.

        Returns:
            The tagged sentence; None if there are no tags or too many.
        """
        tags = tags_of(line, has_tags, has_marks, apart)
        if not 0 < len(tags) <= _MOST_TAGS:
            return None
        elements = _elements(tags)
        alone = {
            element.begin
            for element in elements
            if element.end is None and not tags[element.begin].is_invisible
        }
        text, places, offsets = _without(line, [tag.span for tag in tags], alone)
        codes = tuple(
            Code(offsets[begin], offsets[begin if end is None else end], parent)
            for begin, end, parent in elements
        )
        pairs = tuple(
            (tags[begin], None if end is None else tags[end]) for begin, end, _ in elements
        )
        return cls(Written(line, places), text, Markup(codes), pairs)

    @property
    def marked(self) -> MarkedSentence:
        """Its codes, as of a text with one sentence."""
        count = len(self.markup.codes)
        outside = (False,) * count
        indices = tuple(range(count))
        return MarkedSentence(0, len(self.text), self.text, indices, self.markup, outside, outside)

    def moved(self, span: Span) -> Span:
        """Returns a span of the sentence with tags as one of that without."""
        begin, end = (bisect_left(self.source.places, index) for index in span)
        return begin, end

    def with_placed(self, placed: PlacedCodes) -> Self:
        """Returns a copy with the codes placed in the translation."""
        return replace(self, placed=placed)

    def put_into(self, translation: str) -> Written:
        """Returns the translation with its tags, with the spaces around them as in the source."""
        assert self.placed is not None
        parts: list[str] = []
        places: list[int] = []
        occurrences: list[Occurrence] = []
        source = self.source.text
        at = length = 0
        placed = self._outside_literals(translation, self.placed.codes)
        for offset, tag in self._insertions(self._spans(placed)):
            raw = source[slice(*tag.span)]
            places += range(length, length + offset - at)
            parts += translation[at:offset], raw
            length += offset - at
            occurrences.append(Occurrence(length, length + len(raw), tag.span, raw, tag.opens))
            length += len(raw)
            at = offset
        places += range(length, length + len(translation) - at + 1)
        text = "".join((*parts, translation[at:]))
        restored = Restored(
            text, source, occurrences, [occurrence.source for occurrence in occurrences]
        )
        return Written(restored.text, list(map(restored.index, places)))

    def _outside_literals(self, translation: str, placed: Sequence[Span]) -> list[Span]:
        """The codes' spans, none of which divides a literal that is whole in the source."""
        source, target = (
            [literal.span for literal in known_literals(text)] for text in (self.text, translation)
        )
        spans = []
        for code, (begin, end) in zip(self.markup.codes, placed, strict=True):
            if target and _around(source, code.begin) == _around(source, code.end) == (None, None):
                first, last = _around(target, begin)[0], _around(target, end)[begin < end]
                begin, end = begin if first is None else first, end if last is None else last
            spans.append((begin, end))
        # Two elements that meet within a literal would both enclose it.
        return spans if self._are_nested(spans) else list(placed)

    def _are_nested(self, spans: Sequence[Span]) -> bool:
        """Whether elements enclose their children, and siblings do not overlap."""
        last: dict[int | None, int] = {None: 0}
        parents = [code.parent for code in self.markup.codes]
        for index in document_order(parents, spans):
            begin, end = spans[index]
            parent = parents[index]
            if begin < last[parent] or (parent is not None and end > spans[parent][1]):
                return False
            last[parent], last[index] = end, begin
        return True

    def _spans(self, placed: Sequence[Span]) -> list[Span]:
        """The codes' spans; those of tags without a counterpart keep their order.

        Their counterparts may be in the sentences before and after.
        """
        spans = list(placed)
        alone: dict[int | None, list[int]] = defaultdict(list)
        for index, (code, (_, end)) in enumerate(zip(self.markup.codes, self.tags, strict=True)):
            if end is None:
                alone[code.parent].append(index)
        for group in alone.values():
            in_order = sorted(placed[index] for index in group)
            for index, span in zip(group, in_order, strict=True):
                spans[index] = span
        return spans

    def _insertions(self, spans: Sequence[Span]) -> Iterator[tuple[int, Tag]]:
        """Yields the tags of the translation in order, each with the offset to insert it at."""
        enclosing: list[int] = []
        parents = [code.parent for code in self.markup.codes]
        for index in document_order(parents, spans):
            while enclosing and enclosing[-1] != parents[index]:
                yield self._closing(enclosing.pop(), spans)
            yield spans[index][0], self.tags[index][0]
            if self.tags[index][1] is not None:
                enclosing.append(index)
        for index in reversed(enclosing):
            yield self._closing(index, spans)

    def _closing(self, index: int, spans: Sequence[Span]) -> tuple[int, Tag]:
        end = self.tags[index][1]
        assert end is not None  # an element without an end tag encloses nothing
        return spans[index][1], end


def _around(spans: Sequence[Span], index: int) -> tuple[int, int] | tuple[None, None]:
    """The span that an index is within; none if it is at an end or outside."""
    return next(((begin, end) for begin, end in spans if begin < index < end), (None, None))


def _elements(tags: Sequence[Tag]) -> list[_Element]:
    """The elements that tags form, in the order of their start tags."""
    names = [tag.name for tag in tags]
    ends: dict[int, int] = {}
    opened: list[int] = []
    open_of_name: defaultdict[str, int] = defaultdict(int)
    for index, (tag, name) in enumerate(zip(tags, names, strict=True)):
        if tag.opens is False:
            if not open_of_name[name]:
                continue
            while names[begin := opened.pop()] != name:
                open_of_name[names[begin]] -= 1
            open_of_name[name] -= 1
            ends[begin] = index
        elif tag.opens:
            opened.append(index)
            open_of_name[name] += 1
    elements: list[_Element] = []
    enclosing: list[int] = []
    closing = set(ends.values())
    for index in range(len(tags)):
        if index in closing:
            enclosing.pop()
            continue
        parent = enclosing[-1] if enclosing else None
        if index in ends:
            enclosing.append(len(elements))
        elements.append(_Element(index, ends.get(index), parent))
    return elements


def _without(
    line: str, spans: Sequence[Span], apart: Collection[int]
) -> tuple[str, list[int], list[int]]:
    """Removes the tags from a sentence.

    Args:
        line: the sentence.
        spans: spans of its tags.
        apart: indices of tags that are replaced by a space, to keep the words around them apart.

    Returns:
        The text; for each of its characters, and its end, the index in the sentence; and for each
        tag, the offset in the text.
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
        is_alone = index in apart and all(character.strip() for character in beside)
        if is_alone or all(map(str.isdigit, beside)):
            parts.append(" ")
            places.append(begin)
    places += range(at, len(line) + 1)
    return "".join((*parts, line[at:])), places, offsets

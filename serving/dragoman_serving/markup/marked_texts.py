"""Distributes the codes of a text over its sentences, and joins them again in its translation.

Sentences keep their order, so a code that spans several sentences is exact at their boundaries.
Each sentence has a part of it, which is placed separately in the sentence's translation. The text
between sentences stays as it is, and so do the codes there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import accumulate

from dragoman_options.markup import Code, Markup, PlacedCodes, Span


@dataclass(frozen=True)
class MarkedSentence:
    """The part of a text's codes that is in one sentence.

    Attributes:
        begin: begin of the sentence in its text; `end` likewise.
        line: the sentence without line breaks.
        codes: indices of the text's codes of which the sentence has a part. Codes that cross both
            ends of the sentence are left out, because they enclose its whole translation.
        markup: those parts, as offsets in the line, and the kept spans.
        from_before: for each part, whether its code begins before the sentence.
        goes_on: for each part, whether its code ends after the sentence.
    """

    begin: int
    end: int
    line: str
    codes: tuple[int, ...]
    markup: Markup
    from_before: tuple[bool, ...]
    goes_on: tuple[bool, ...]

    @cached_property
    def kept(self) -> tuple[str, ...]:
        """The texts that its translation must repeat."""
        return tuple(self.line[begin:end] for begin, end in self.markup.keep)

    @cached_property
    def needs_alignment(self) -> bool:
        """Whether some code neither encloses the whole sentence nor is empty at one of its ends."""
        last = len(self.line.rstrip())
        first = len(self.line) - len(self.line.lstrip())
        return any(
            first < begin < last if begin == end else begin > first or end < last
            for begin, end, _ in self.markup.codes
        )

    def stretched(self, placed: PlacedCodes, length: int) -> list[Span]:
        """Returns placed codes, with those that cross an end extended to the translation's end.

        Args:
            placed: the placed codes of `markup`.
            length: length of the translation.
        """
        spans = list(placed.codes)
        beside: dict[int | None, list[int]] = defaultdict(list)
        for index, code in enumerate(self.markup.codes):
            beside[code.parent].append(index)
        for index, code in enumerate(self.markup.codes):
            if not (self.from_before[index] or self.goes_on[index]):
                continue
            others = [spans[other] for other in beside[code.parent] if other != index]
            begin, end = spans[index]
            if self.from_before[index]:
                begin, end = 0, min([end, *(span[0] for span in others)])
            if self.goes_on[index]:
                begin, end = max([begin, *(span[1] for span in others)]), length
            spans[index] = begin, end
        return spans


class MarkedText:
    """A text with codes, in which each sentence is translated separately.

    Attributes:
        codes: its codes.
        sentences: the sentences with their parts of the codes.
    """

    def __init__(self, text: str, markup: Markup, sentences: Sequence[tuple[Span, str]]) -> None:
        """Distribute the codes over the sentences.

        Args:
            text: the text.
            markup: valid markup of the text.
            sentences: span in the text of each sentence, and its line, without line breaks.
        """
        self.codes = markup.codes
        self.sentences = [
            _marked_sentence(text, markup, span, line, indices)
            for (span, line), indices in zip(
                sentences, _shared(markup.codes, [span for span, _ in sentences]), strict=True
            )
        ]
        self._ends = [sentence.end for sentence in self.sentences]

    def joined(
        self, placed: Sequence[PlacedCodes], lines: Sequence[str], text: str, spans: Sequence[Span]
    ) -> PlacedCodes:
        """Returns the codes of the text's translation.

        Args:
            placed: the codes of each sentence, in its translation as one line.
            lines: those translations.
            text: the text's translation.
            spans: spans of the sentences' translations in `text`.
        """
        borders: dict[tuple[int, int], int] = {}
        """Offsets in the translation by code and side, for the borders within sentences."""
        for sentence, codes, line, (begin, end) in zip(
            self.sentences, placed, lines, spans, strict=True
        ):
            moved = mover(line, text[begin:end])
            stretched = sentence.stretched(codes, len(line))
            for place, index in enumerate(sentence.codes):
                outside = sentence.from_before[place], sentence.goes_on[place]
                for side in (0, 1):
                    if not outside[side]:
                        borders[index, side] = begin + moved(stretched[place][side])
        found_spans: list[Span] = []
        for index, code in enumerate(self.codes):
            first, last = (0, len(text)) if code.parent is None else found_spans[code.parent]
            begin, end = (
                min(max(self._between(offset, spans) if at is None else at, first), last)
                for offset, at in zip(
                    code[:2], map(borders.get, ((index, 0), (index, 1))), strict=True
                )
            )
            found_spans.append((begin, max(begin, end)))
        # A code may have parts in two sentences.
        uncertain = sum(codes.uncertain for codes in placed)
        return PlacedCodes(tuple(found_spans), min(uncertain, len(self.codes)))

    def _between(self, offset: int, spans: Sequence[Span]) -> int:
        """Maps an offset between sentences to the translation."""
        before = bisect_right(self._ends, offset)
        return offset + (spans[before - 1][1] - self._ends[before - 1] if before else 0)


def mover(before: str, after: str) -> Callable[[int], int]:
    """Returns a function that maps offsets between two texts which differ only in white space."""
    if before == after:
        return lambda offset: offset
    counts = [0, *accumulate(not character.isspace() for character in before)]
    places = [index for index, character in enumerate(after) if not character.isspace()]

    def moved(offset: int) -> int:
        count = counts[offset]
        if offset and before[offset - 1].isspace():
            return places[count] if count < len(places) else len(after)
        return places[count - 1] + 1 if count else 0

    return moved


def _shared(codes: Sequence[Code], spans: Sequence[Span]) -> Iterator[list[int]]:
    """Yields, for each sentence, the indices of the codes that may have a border in it."""
    begins = [code.begin for code in codes]
    open_ones: list[tuple[int, int]] = []
    """Heap of the codes that began before a sentence, by their ends."""
    known = 0
    for begin, end in spans:
        first, behind = bisect_left(begins, begin), bisect_right(begins, end)
        for index in range(known, first):
            heappush(open_ones, (codes[index].end, index))
        known = max(known, first)
        ending = []
        while open_ones and open_ones[0][0] <= end:
            ending.append(heappop(open_ones)[1])
        yield [*sorted(ending), *range(first, behind)]


def _marked_sentence(
    text: str, markup: Markup, span: Span, line: str, indices: Sequence[int]
) -> MarkedSentence:
    begin, end = span
    moved = mover(text[begin:end], line)
    local: dict[int, int] = {}
    """Indices of the sentence's codes by indices of the text's codes."""
    codes: list[Code] = []
    for index in indices:
        code = markup.codes[index]
        parent = None if code.parent is None else markup.codes[code.parent]
        is_enclosed = parent is not None and parent.begin < begin and end < parent.end
        if not (is_enclosed or code.parent is None or code.parent in local):
            continue
        if not _has_part(code, begin, end):
            continue
        first, last = (
            moved(min(max(offset, begin), end) - begin) for offset in (code.begin, code.end)
        )
        within = None if is_enclosed or code.parent is None else local[code.parent]
        codes.append(Code(first, last, within))
        local[index] = len(local)
    kept = markup.keep[bisect_left(markup.keep, (begin,)) : bisect_right(markup.keep, (end,))]
    keep = tuple((moved(first - begin), moved(last - begin)) for first, last in kept if last <= end)
    return MarkedSentence(
        begin,
        end,
        line,
        tuple(local),
        Markup(tuple(codes), keep),
        tuple(markup.codes[index].begin < begin for index in local),
        tuple(markup.codes[index].end > end for index in local),
    )


def _has_part(code: Code, begin: int, end: int) -> bool:
    """Whether a sentence has a part of a code; an empty code belongs to its parent's sentence."""
    if code.begin == code.end:
        return begin <= code.begin <= end if code.parent is not None else begin < code.begin < end
    return code.begin < end and code.end > begin

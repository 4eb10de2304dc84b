"""The codes of a text, sentence by sentence, and of its translation from those of its sentences.

Sentences keep their order, so a code that goes on over the end of one is exact there. Each sentence
has a part of it, which is placed in the sentence's translation by itself. Between sentences a text
stays as it is, and so do codes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dragoman_options.markup import Code, Markup, PlacedCodes, Span


@dataclass(frozen=True)
class MarkedSentence:
    """What a sentence has of the codes of its text.

    Attributes:
        begin: of the sentence in its text; `end` likewise.
        line: the sentence without line breaks.
        codes: indices of those of the text's codes that the sentence has a part of.
        markup: those parts, as offsets in the line, and the spans that its translation repeats.
        from_before: whether each part is of a code that begins before the sentence.
        goes_on: whether each part is of a code that ends behind the sentence.
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
        """The texts that its translation repeats."""
        return tuple(self.line[begin:end] for begin, end in self.markup.keep)

    @cached_property
    def needs_alignment(self) -> bool:
        """Whether a code neither encloses the whole sentence nor is empty at one of its ends."""
        last = len(self.line.rstrip())
        first = len(self.line) - len(self.line.lstrip())
        return any(
            first < begin < last if begin == end else begin > first or end < last
            for begin, end, _ in self.markup.codes
        )

    def stretched(self, placed: PlacedCodes, length: int) -> list[Span]:
        """Placed codes of which those of the neighbours too reach to the translation's ends.

        Args:
            placed: the codes of `markup`.
            length: of the translation.
        """
        spans = list(placed.codes)
        beside: dict[int | None, list[int]] = defaultdict(list)
        for index, code in enumerate(self.markup.codes):
            beside[code.parent].append(index)
        for index, code in enumerate(self.markup.codes):
            others = [spans[other] for other in beside[code.parent] if other != index]
            begin, end = spans[index]
            if self.from_before[index]:
                begin, end = 0, min([end, *(one[0] for one in others)])
            if self.goes_on[index]:
                begin, end = max([begin, *(one[1] for one in others)]), length
            if self.from_before[index] and self.goes_on[index]:
                begin, end = 0, length
            spans[index] = begin, end
        return spans


class MarkedText:
    """A text with codes, of which each sentence is translated by itself.

    Attributes:
        sentences: what each of them has of the codes.
    """

    def __init__(self, text: str, markup: Markup, sentences: Sequence[tuple[Span, str]]) -> None:
        """Share the codes among the sentences.

        Args:
            text: the text.
            markup: of the text; valid.
            sentences: where each sentence is in the text, and its line, without line breaks.
        """
        self._codes = markup.codes
        self.sentences = [_marked_sentence(text, markup, span, line) for span, line in sentences]

    def joined(
        self, placed: Sequence[PlacedCodes], lines: Sequence[str], text: str, spans: Sequence[Span]
    ) -> PlacedCodes:
        """The codes of the text's translation.

        Args:
            placed: the codes of each sentence, in its translation as one line.
            lines: those translations.
            text: the text's translation.
            spans: where the sentences' translations are in it.
        """
        borders: dict[tuple[int, int], int] = {}
        """Offsets in the translation by code and side, as far as sentences have them."""
        for sentence, one, line, (begin, end) in zip(
            self.sentences, placed, lines, spans, strict=True
        ):
            part = text[begin:end]
            found = sentence.stretched(one, len(line))
            for place, index in enumerate(sentence.codes):
                outside = sentence.from_before[place], sentence.goes_on[place]
                for side in (0, 1):
                    if not outside[side]:
                        borders[index, side] = begin + moved(found[place][side], line, part)
        found_spans: list[Span] = []
        for index, code in enumerate(self._codes):
            first, last = (0, len(text)) if code.parent is None else found_spans[code.parent]
            begin, end = (
                min(max(borders.get((index, side), self._between(offset, spans)), first), last)
                for side, offset in enumerate((code.begin, code.end))
            )
            found_spans.append((begin, max(begin, end)))
        uncertain = sum(one.uncertain for one in placed)  # a code may have parts in two sentences
        return PlacedCodes(tuple(found_spans), min(uncertain, len(self._codes)))

    def _between(self, offset: int, spans: Sequence[Span]) -> int:
        """Where an offset of what is between sentences is in the translation."""
        shift = 0
        for sentence, (_, end) in zip(self.sentences, spans, strict=True):
            if offset < sentence.end:
                break
            shift = end - sentence.end
        return offset + shift


def moved(offset: int, before: str, after: str) -> int:
    """Where an offset is after the white space of a text has changed, and nothing else."""
    if before == after:
        return offset
    characters = sum(not one.isspace() for one in before[:offset])
    is_behind_space = offset > 0 and before[offset - 1].isspace()
    for index, one in enumerate(after):
        if one.isspace():
            continue
        if not characters:
            return index if is_behind_space else _behind_last(after, index)
        characters -= 1
    return len(after) if is_behind_space else len(after.rstrip())


def _behind_last(text: str, index: int) -> int:
    """The end of the last character that is no white space, before an index."""
    return len(text[:index].rstrip())


def _marked_sentence(text: str, markup: Markup, span: Span, line: str) -> MarkedSentence:
    begin, end = span
    written = text[begin:end]
    local: dict[int, int] = {}
    """Indices of the sentence's codes by those of the text's."""
    codes: list[Code] = []
    for index, code in enumerate(markup.codes):
        if not _has_part(code, begin, end, local):
            continue
        first, last = (
            moved(min(max(offset, begin), end) - begin, written, line)
            for offset in (code.begin, code.end)
        )
        codes.append(Code(first, last, None if code.parent is None else local[code.parent]))
        local[index] = len(local)
    keep = tuple(
        (moved(first - begin, written, line), moved(last - begin, written, line))
        for first, last in markup.keep
        if begin <= first and last <= end
    )
    return MarkedSentence(
        begin,
        end,
        line,
        tuple(local),
        Markup(tuple(codes), keep),
        tuple(markup.codes[index].begin < begin for index in local),
        tuple(markup.codes[index].end > end for index in local),
    )


def _has_part(code: Code, begin: int, end: int, local: dict[int, int]) -> bool:
    """Whether a sentence has a part of a code; an empty code belongs where its parent is."""
    if code.parent is not None and code.parent not in local:
        return False
    if code.begin == code.end:
        return begin <= code.begin <= end if code.parent is not None else begin < code.begin < end
    return code.begin < end and code.end > begin

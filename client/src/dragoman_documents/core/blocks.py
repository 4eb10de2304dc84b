"""Blocks of a document: their pieces become texts with codes, and the bytes between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from dragoman_options.markup import MOST_CODES, Code, Markup, Span

from dragoman_documents.core.gaps import BREAK, separator, touches_one_word
from dragoman_documents.core.pieces import (
    SPACE,
    Closing,
    Opaque,
    Opening,
    Piece,
    Words,
    has_text,
    paired,
    partners_of,
    with_objects,
)
from dragoman_documents.core.segments import Raw, Segment, SegmentKind, Spelling, Tag

SOFT_HYPHEN: Final = "\u00ad"
"""Shows where a word of the source may be divided; models do not know a word with it."""


def segments(
    pieces: Sequence[Piece],
    spelling: Spelling,
    *,
    kind: SegmentKind = "text",
    keep: re.Pattern[str] | None = None,
) -> Iterator[Raw | Segment]:
    """Yield the texts of a block, and the bytes around them.

    Texts are split at a tag whose partner is not in the block, and at the tags around it. Spaces
    and elements at the ends of a text are not part of it, since they need no position in the
    translation.

    Args:
        pieces: pieces in document order.
        spelling: spelling of text outside elements with their own spelling.
        kind: kind of the texts.
        keep: matches the parts that the translation must repeat.
    """
    elements = list(with_objects(paired(pieces), spelling))
    block = _Block(elements, spelling, kind, keep)
    begin = 0
    for border in [*block.borders(0, len(block.pieces)), len(block.pieces)]:
        yield from block.between(begin, border)
        if border < len(block.pieces):
            yield from block.outside(border, border + 1)
        begin = border + 1


class _Block:
    """Pieces of a block, with the properties of each."""

    def __init__(
        self,
        pieces: list[Piece],
        spelling: Spelling,
        kind: SegmentKind,
        keep: re.Pattern[str] | None,
    ) -> None:
        self.pieces, self._kind, self._keep = pieces, kind, keep
        self._partners = partners_of(pieces)
        self._spellings: list[Spelling] = []
        """The spelling of the text at the beginning of each piece."""
        around: list[Spelling] = [spelling]
        for piece, partner in zip(pieces, self._partners, strict=True):
            if isinstance(piece, Closing) and partner is not None:
                around.pop()
            self._spellings.append(around[-1])
            if isinstance(piece, Opening) and partner is not None:
                around.append(piece.spelling or around[-1])
        self._texts = [0, *accumulate(map(has_text, pieces))]
        """By index, how many of the preceding pieces have text."""

    def borders(self, begin: int, end: int) -> list[int]:
        """Returns the indices of tags at which texts are split."""
        single = [
            isinstance(piece, (Opening, Closing)) and partner is None
            for piece, partner in zip(self.pieces, self._partners, strict=True)
        ]
        before = [0, *accumulate(single)]
        return [
            index
            for index in range(begin, end)
            if single[index]
            or (
                ((partner := self._partners[index]) is not None)
                and before[index] != before[partner]
            )
        ]

    def outside(self, begin: int, end: int) -> Iterator[Raw | Segment]:
        """Yield pieces that are not part of a text."""
        for index in range(begin, end):
            piece = self.pieces[index]
            if isinstance(piece, Words):
                yield Raw(self._spellings[index].raw(piece.written))
                continue
            for part in piece.parts:
                yield part if isinstance(part, Segment) else Raw(part)

    def between(self, begin: int, end: int) -> Iterator[Raw | Segment]:
        """Yield the text in a range, if there is one, and the pieces around it."""
        first, last = self._trimmed(begin, end)
        if not self._has_letters(first, last):
            yield from self.outside(begin, end)
            return
        tags = sum(not isinstance(self.pieces[index], Words) for index in range(first, last))
        if tags > MOST_CODES:
            yield from self._without_codes(begin, end)
            return
        yield from self.outside(begin, first)
        space, written, space_behind = self._spaces(first, last)
        yield Raw(self._spellings[first].raw(space))
        yield self._segment(first, last, written)
        yield Raw(self._spellings[last - 1].raw(space_behind))
        yield from self.outside(last, end)

    def _without_codes(self, begin: int, end: int) -> Iterator[Raw | Segment]:
        for index in range(begin, end):
            if isinstance(self.pieces[index], Words):
                yield from self.between(index, index + 1)
            else:
                yield from self.outside(index, index + 1)

    def _trimmed(self, begin: int, end: int) -> tuple[int, int]:
        """Returns the range of the text without empty elements, or elements around all of it."""
        while begin < end:
            after = self._after(begin)
            before = self._before(end)
            if not self._count(begin, after):
                begin = after
            elif not self._count(before, end):
                end = before
            elif isinstance(self.pieces[begin], Opening) and after == end:
                begin, end = begin + 1, end - 1
            else:
                break
        return begin, end

    def _count(self, begin: int, end: int) -> int:
        return self._texts[end] - self._texts[begin]

    def _after(self, index: int) -> int:
        """Returns the end of the piece or element that begins at an index."""
        partner = self._partners[index]
        return index + 1 if partner is None else partner + 1

    def _before(self, end: int) -> int:
        partner = self._partners[end - 1]
        return end - 1 if partner is None else partner

    def _has_letters(self, begin: int, end: int) -> bool:
        return any(
            any(map(str.isalpha, self._spellings[index].read(piece.written)))
            for index in range(begin, end)
            if isinstance(piece := self.pieces[index], Words)
        )

    def _spaces(self, first: int, last: int) -> tuple[str, dict[int, str], str]:
        """Returns the spaces at both ends, and the words there without them."""
        space = space_behind = ""
        written: dict[int, str] = {}
        if isinstance(piece := self.pieces[first], Words):
            written[first] = piece.written.lstrip(SPACE)
            space = piece.written[: len(piece.written) - len(written[first])]
        if isinstance(piece := self.pieces[last - 1], Words):
            all_of_it = written.get(last - 1, piece.written)
            written[last - 1] = all_of_it.rstrip(SPACE)
            space_behind = all_of_it[len(written[last - 1]) :]
        return space, written, space_behind

    def _segment(self, first: int, last: int, written: dict[int, str]) -> Segment:
        spaces = self._spaces_of_objects(first, last, written)
        texts = [
            self._spellings[index].read(written.get(index, piece.written)).replace(SOFT_HYPHEN, "")
            if isinstance(piece := self.pieces[index], Words)
            else _shown(piece)
            for index in range(first, last)
        ]
        following = [""] * len(texts)
        for index in reversed(range(len(texts) - 1)):
            following[index] = texts[index + 1][:1] or following[index + 1]
        draft = _Draft(self._keep)
        for index, text, behind in zip(range(first, last), texts, following, strict=True):
            piece, spelling = self.pieces[index], self._spellings[index]
            if isinstance(piece, Words):
                draft.add_words(text, written.get(index, piece.written), spelling)
            elif isinstance(piece, Opening):
                draft.open(piece, self._closing(index))
            elif isinstance(piece, Closing):
                draft.close(piece)
            elif piece.text:
                draft.add_kept(piece)
            else:
                draft.add_object(piece, spaces[index], behind, spelling)
        return draft.segment(self._spellings[first], self._kind)

    def _spaces_of_objects(
        self, first: int, last: int, written: dict[int, str]
    ) -> dict[int, tuple[str, str]]:
        """Moves the white space beside elements without text from the words to these elements.

        A translation has one space where the source has one on each side of such an element. Line
        breaks of the text stay, because they end sentences.

        Args:
            first: index of the first piece.
            last: index after the last one.
            written: the words of pieces, if they differ from the pieces' own; changed.

        Returns:
            The white space before and after each of these elements, by index.
        """
        around: dict[int, tuple[str, str]] = {}
        for index in range(first, last):
            piece = self.pieces[index]
            if not isinstance(piece, Opaque) or piece.text:
                continue
            spaces = ["", ""]
            for side, other in enumerate((index - 1, index + 1)):
                words = self.pieces[other] if first <= other < last else None
                if not isinstance(words, Words):
                    continue
                text = written.get(other, words.written)
                rest = text.lstrip(SPACE) if side else text.rstrip(SPACE)
                space = text[: len(text) - len(rest)] if side else text[len(rest) :]
                if piece.kind == "break" or "\n" not in self._spellings[other].read(space):
                    spaces[side], written[other] = space, rest
            around[index] = spaces[0], spaces[1]
        return around

    def _closing(self, opening: int) -> bytes:
        partner = self._partners[opening]
        piece = None if partner is None else self.pieces[partner]
        return b"".join(piece.parts) if isinstance(piece, Closing) else b""


class _Draft:
    """Builds a segment."""

    def __init__(self, keep: re.Pattern[str] | None) -> None:
        self._keep = keep
        self._texts: list[str] = []
        self._length = 0
        self._originals: list[bytes] = []
        self._codes: list[Code] = []
        self._tags: list[Tag] = []
        self._kept: list[Span] = []
        self._entered: list[int] = []
        self._line_end = "\n"

    def add_words(self, text: str, written: str, spelling: Spelling) -> None:
        if self._keep:
            spans = (match.span() for match in self._keep.finditer(text) if match.group())
            self._kept += [(self._length + begin, self._length + end) for begin, end in spans]
        self._add(text, spelling.raw(written))
        if "\r\n" in written:
            self._line_end = "\r\n"

    def open(self, piece: Opening, closing: bytes) -> None:
        self._add_code(Tag(piece.parts, closing, piece.spelling))
        self._entered.append(len(self._codes) - 1)

    def close(self, piece: Closing) -> None:
        index = self._entered.pop()
        self._codes[index] = self._codes[index]._replace(end=self._length)
        self._originals += piece.parts

    def add_kept(self, piece: Opaque) -> None:
        """Add an element that its text stands for."""
        self._add_code(Tag(piece.parts, is_opaque=True))
        self._kept.append((self._length, self._length + len(piece.text)))
        self._add_covered(piece.text)

    def add_object(
        self, piece: Opaque, spaces: tuple[str, str], following: str, spelling: Spelling
    ) -> None:
        """Add an element without text."""
        before, after = map(spelling.raw, spaces)
        if piece.kind == "break":
            self._add_code(Tag((before, *piece.parts, after), is_opaque=True))
            self._add_covered(BREAK)
            return
        last = self._texts[-1][-1:] if self._texts else ""
        if touches_one_word(last, spaces, following):
            self._add(spelling.read(spaces[0]), before)
            self._add_code(Tag(piece.parts, is_opaque=True))
            self._add(spelling.read(spaces[1]), after)
            return
        self._originals.append(before)
        self._add_code(Tag(piece.parts, b"", None, True, *spaces))
        self._originals.append(after)
        self._add_covered(separator(last, piece.kind, spaces, following))

    def _add_covered(self, text: str) -> None:
        """Add text that the last code covers, and that is not in the document."""
        self._add(text, b"")
        self._codes[-1] = self._codes[-1]._replace(end=self._length)

    def segment(self, spelling: Spelling, kind: SegmentKind) -> Segment:
        return Segment(
            "".join(self._texts),
            Markup(tuple(self._codes), tuple(self._kept)),
            b"".join(self._originals),
            spelling,
            tuple(self._tags),
            kind,
            self._line_end,
        )

    def _add(self, text: str, original: bytes) -> None:
        if text:
            self._texts.append(text)
        self._length += len(text)
        self._originals.append(original)

    def _add_code(self, tag: Tag) -> None:
        parent = self._entered[-1] if self._entered else None
        self._codes.append(Code(self._length, self._length, parent))
        self._tags.append(tag)
        self._originals += [
            part.original if isinstance(part, Segment) else part for part in tag.parts
        ]


def _shown(piece: Piece) -> str:
    """The text in place of a tag."""
    if not isinstance(piece, Opaque):
        return ""
    return piece.text or (BREAK if piece.kind == "break" else "")

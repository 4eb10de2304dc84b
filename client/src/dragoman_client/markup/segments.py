"""Text segments of a document, with inline elements as codes, and the bytes between them.

A reader passes the pieces of a block (`Words`, `Opening`, `Closing`, `Opaque`), and `segments`
turns them into texts. A segment writes its translation with the original bytes of its tags: a
document is never serialized from a tree.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal, NamedTuple

from dragoman_options.markup import MOST_CODES, Code, Markup, PlacedCodes, Span

SegmentKind = Literal["text", "attribute", "title"]

MOST_TEXT_CHARACTERS: Final = 50_000
"""A text longer than this, with its tags, is split; the server accepts texts of twice this."""
MOST_KEPT_CHARACTERS: Final = 1000
"""Maximum length of an untranslated element whose text is shown to the model."""
_MOST_REFERENCE_CHARACTERS: Final = 40
_SPACE: Final = " \t\r\n\f\0"
"""Characters at the ends of a text that are not part of it; browsers ignore NUL."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """The encoding and escaping of text at some place in a document.

    Attributes:
        encoding: encoding of the document.
        read: unescapes written text.
        write: escapes and encodes text.
        errors: error handler for bytes that are not valid in the encoding.
    """

    encoding: str
    read: Callable[[str], str]
    write: Callable[[str], bytes]
    errors: str = "strict"

    def raw(self, written: str) -> bytes:
        """Returns the original bytes of written text."""
        return written.encode(self.encoding, self.errors)


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes that are copied to the output."""

    content: bytes


@dataclass(frozen=True, slots=True)
class Words:
    """Text of a block, still escaped."""

    written: str


@dataclass(frozen=True, slots=True)
class Opening:
    """The start tag of an inline element.

    Attributes:
        parts: bytes of the tag, and the texts of its attributes.
        spelling: spelling of the text in the element; None: that of the surrounding text.
    """

    parts: tuple[bytes | Segment, ...]
    spelling: Spelling | None = None


@dataclass(frozen=True, slots=True)
class Closing:
    """The end tag of an inline element."""

    parts: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Opaque:
    """An untranslated element that moves with the text around it.

    Attributes:
        parts: its bytes, and the texts of its attributes.
        text: text that represents it in its sentence; the translation must repeat it.
        pair: for one of two tags that together stand for an element: a name that both have, and
            whether this is the first of them.
    """

    parts: tuple[bytes | Segment, ...]
    text: str = ""
    pair: tuple[str, bool] | None = None


Piece = Words | Opening | Closing | Opaque


class Run:
    """Collects the pieces of a text.

    Attributes:
        pieces: the complete pieces.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.pieces: list[Piece] = []
        self._words: list[str] = []
        self._size = 0

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self.pieces or self._words)

    @property
    def is_long(self) -> bool:
        """Whether the text must be split."""
        return self._size > MOST_TEXT_CHARACTERS

    def add(self, piece: Piece, size: int) -> None:
        """Add a piece other than text, of the given size."""
        self._end_words()
        self.pieces.append(piece)
        self._size += size

    def add_words(self, written: str) -> None:
        """Append text."""
        self._words.append(written)
        self._size += len(written)

    def take(self) -> list[Piece]:
        """Remove and return all pieces."""
        self._end_words()
        pieces, self.pieces, self._size = self.pieces, [], 0
        return pieces

    def part(self) -> list[Piece]:
        """Like `take`, but if the text ends with words, leaves what exceeds the maximum length."""
        written = "".join(self._words)
        room = len(written) + MOST_TEXT_CHARACTERS - self._size
        at = _cut(written, room) if written else 0
        self._words = [written[:at]]
        pieces = self.take()
        if written:
            self.add_words(written[at:])
        return pieces

    def _end_words(self) -> None:
        if written := "".join(self._words):
            self.pieces.append(Words(written))
        self._words = []


def _cut(written: str, most: int) -> int:
    """Where to split long text: after white space, or else not within a reference."""
    if space := max(written.rfind(one, most // 2, most) for one in _SPACE) + 1:
        return space
    reference = written.rfind("&", max(0, most - _MOST_REFERENCE_CHARACTERS), most)
    return most if reference < 0 else reference


class Tag(NamedTuple):
    """The bytes of a code, around its text, or in place of it if the code is opaque."""

    parts: tuple[bytes | Segment, ...]
    closing: bytes
    spelling: Spelling | None
    is_opaque: bool


@dataclass(frozen=True)
class Segment:
    """A text to translate.

    Attributes:
        text: the text without tags.
        markup: its elements as codes, and the spans that its translation must repeat.
        original: the original bytes.
        spelling: spelling of the text.
        tags: the bytes of each code.
        kind: where the text is in the document.
        line_end: how to write a line feed.
    """

    text: str
    markup: Markup
    original: bytes
    spelling: Spelling
    tags: tuple[Tag, ...] = ()
    kind: SegmentKind = "text"
    line_end: str = "\n"

    @property
    def attributes(self) -> tuple[Segment, ...]:
        """The texts in its tags, in order."""
        return tuple(part for tag in self.tags for part in tag.parts if isinstance(part, Segment))

    def write(
        self, translation: str, placed: PlacedCodes, attributes: Sequence[bytes] | None = None
    ) -> bytes:
        """Returns the bytes that replace the original; they contain each of its tags once.

        Args:
            translation: translation of the text; if it is only white space, the text itself is
                written.
            placed: positions of the codes in the translation; a missing or misplaced code is moved
                to a valid position.
            attributes: the written texts in its tags; None: unchanged.
        """
        originals = [one.original for one in self.attributes]
        written = originals if attributes is None else list(attributes)
        own = tuple((begin, end) for begin, end, _ in self.markup.codes)
        if not translation.strip():
            translation, placed = self.text, PlacedCodes(own)
        if translation == self.text and placed.codes == own and written == originals:
            return self.original
        begin, end = self._core(translation)
        shifted = [(first - begin, last - begin) for first, last in placed.codes]
        spans, children = _fitted(self.markup.codes, shifted, end - begin)
        return b"".join(self._written(translation[begin:end], spans, children, written))

    def _core(self, translation: str) -> Span:
        """Returns the span without white space at the ends where the text has none."""
        begin, end = 0, len(translation)
        if self.text == self.text.lstrip():
            begin = end - len(translation.lstrip())
        if self.text == self.text.rstrip():
            end = len(translation.rstrip())
        return begin, end

    def _written(
        self,
        translation: str,
        spans: Sequence[Span],
        children: Sequence[Sequence[int]],
        attributes: Sequence[bytes],
    ) -> Iterator[bytes]:
        openings = self._openings(attributes)
        # A stack instead of recursion: codes may be nested thousands deep.
        entered = [(len(translation), b"", self.spelling, iter(children[-1]))]
        position = 0
        while entered:
            end, closing, spelling, inner = entered[-1]
            index = next(inner, None)
            until = end if index is None else spans[index][0]
            text = translation[position:until].replace("\n", self.line_end)
            yield spelling.write(text)
            position = until
            if index is None:
                yield closing
                entered.pop()
                continue
            yield openings[index]
            tag = self.tags[index]
            if tag.is_opaque:
                position = spans[index][1]
                continue
            inside = tag.spelling or spelling
            entered.append((spans[index][1], tag.closing, inside, iter(children[index])))

    def _openings(self, attributes: Sequence[bytes]) -> list[bytes]:
        written = iter(attributes)
        return [
            b"".join(next(written) if isinstance(part, Segment) else part for part in tag.parts)
            for tag in self.tags
        ]


def _fitted(
    codes: Sequence[Code], spans: Sequence[Span], length: int
) -> tuple[list[Span], list[list[int]]]:
    """Returns valid spans of the codes, and the children of each code, in order.

    The last list of children has the codes without a parent.

    Args:
        codes: codes of the text.
        spans: requested spans in the translation; codes without a span come last.
        length: length of the translation.
    """
    children: list[list[int]] = [[] for _ in range(len(codes) + 1)]
    for index, code in enumerate(codes):
        children[-1 if code.parent is None else code.parent].append(index)
    wanted = [*spans[: len(codes)], *[(length, length)] * (len(codes) - len(spans))]
    found = [*wanted, (0, length)]
    for parent in (-1, *range(len(codes))):
        children[parent].sort(key=lambda index: (*wanted[index], index))
        position, last = found[parent]
        for index in children[parent]:
            begin = min(max(wanted[index][0], position), last)
            end = min(max(wanted[index][1], begin), last)
            is_empty = codes[index].begin == codes[index].end
            position = begin if is_empty else end
            found[index] = begin, position
    return found, children


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
    block = _Block(_pairs_as_elements(pieces), spelling, kind, keep)
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
        self._partners = _partners(pieces)
        self._spellings: list[Spelling] = []
        """The spelling of the text at the beginning of each piece."""
        around: list[Spelling] = [spelling]
        for piece, partner in zip(pieces, self._partners, strict=True):
            if isinstance(piece, Closing) and partner is not None:
                around.pop()
            self._spellings.append(around[-1])
            if isinstance(piece, Opening) and partner is not None:
                around.append(piece.spelling or around[-1])
        self._texts = [0, *accumulate(map(_has_text, pieces))]
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
            written[first] = piece.written.lstrip(_SPACE)
            space = piece.written[: len(piece.written) - len(written[first])]
        if isinstance(piece := self.pieces[last - 1], Words):
            all_of_it = written.get(last - 1, piece.written)
            written[last - 1] = all_of_it.rstrip(_SPACE)
            space_behind = all_of_it[len(written[last - 1]) :]
        return space, written, space_behind

    def _segment(self, first: int, last: int, without_spaces: dict[int, str]) -> Segment:
        draft = _Draft(self._keep)
        for index in range(first, last):
            piece, spelling = self.pieces[index], self._spellings[index]
            if isinstance(piece, Words):
                draft.add_words(without_spaces.get(index, piece.written), spelling)
            elif isinstance(piece, Opening):
                draft.open(piece, self._closing(index))
            elif isinstance(piece, Closing):
                draft.close(piece)
            else:
                draft.add_opaque(piece)
        return draft.segment(self._spellings[first], self._kind)

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

    def add_words(self, written: str, spelling: Spelling) -> None:
        text = spelling.read(written)
        if self._keep:
            spans = (found.span() for found in self._keep.finditer(text) if found.group())
            self._kept += [(self._length + begin, self._length + end) for begin, end in spans]
        self._add(text, spelling.raw(written))
        if "\r\n" in written:
            self._line_end = "\r\n"

    def open(self, piece: Opening, closing: bytes) -> None:
        self._add_code(Tag(piece.parts, closing, piece.spelling, is_opaque=False))
        self._entered.append(len(self._codes) - 1)

    def close(self, piece: Closing) -> None:
        index = self._entered.pop()
        self._codes[index] = self._codes[index]._replace(end=self._length)
        self._originals += piece.parts

    def add_opaque(self, piece: Opaque) -> None:
        self._add_code(Tag(piece.parts, b"", None, is_opaque=True))
        begin = self._length
        self._add(piece.text, b"")
        if piece.text:
            self._codes[-1] = self._codes[-1]._replace(end=self._length)
            self._kept.append((begin, self._length))

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


def _partners(pieces: Sequence[Piece]) -> list[int | None]:
    """Returns, for each piece that is a tag of an element, the index of the other tag."""
    partners: list[int | None] = [None] * len(pieces)
    entered: list[int] = []
    for index, piece in enumerate(pieces):
        if isinstance(piece, Opening):
            entered.append(index)
        elif isinstance(piece, Closing) and entered:
            partners[index] = entered.pop()
            partners[partners[index] or 0] = index
    return partners


def _pairs_as_elements(pieces: Sequence[Piece]) -> list[Piece]:
    """Returns the pieces with properly nested pairs converted to elements."""
    nested = list(pieces)
    entered: list[list[tuple[str, int]]] = [[]]
    """For each open element, the unmatched first tags of pairs in it, as name and index."""
    waiting: list[Counter[str]] = [Counter()]
    """How many of them have each name."""
    for index, piece in enumerate(pieces):
        if isinstance(piece, Opening):
            entered.append([])
            waiting.append(Counter())
        elif isinstance(piece, Closing) and len(entered) > 1:
            entered.pop()
            waiting.pop()
        elif isinstance(piece, Opaque) and piece.pair is not None:
            name, is_first = piece.pair
            if is_first:
                entered[-1].append((name, index))
                waiting[-1][name] += 1
            elif waiting[-1][name]:
                first = _left(entered[-1], waiting[-1], name)
                nested[first] = Opening(_parts(nested[first]))
                nested[index] = Closing(tuple(p for p in piece.parts if isinstance(p, bytes)))
    return nested


def _left(entered: list[tuple[str, int]], waiting: Counter[str], name: str) -> int:
    """Pop up to the last entry with a name, and return its index."""
    while True:
        one, index = entered.pop()
        waiting[one] -= 1
        if one == name:
            return index


def _parts(piece: Piece) -> tuple[bytes | Segment, ...]:
    return () if isinstance(piece, Words) else piece.parts


def _has_text(piece: Piece) -> bool:
    if isinstance(piece, Words):
        return not piece.written.isspace() and piece.written != ""
    return isinstance(piece, Opaque) and piece.text != ""

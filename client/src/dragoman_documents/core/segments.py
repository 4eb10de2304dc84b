"""Text segments of a document, with inline elements as codes, and the bytes between them.

A reader passes the pieces of a block (`Words`, `Opening`, `Closing`, `Opaque`), and `segments`
turns them into texts. A segment writes its translation with the original bytes of its tags: a
document is never serialized from a tree.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final, Literal, NamedTuple

from dragoman_options.markup import MOST_CODES, Code, Markup, PlacedCodes, Span

from dragoman_documents.core.gaps import BREAK, Gaps, OpaqueKind, separator, touches_one_word

SegmentKind = Literal["text", "attribute", "title"]
LeftReason = Literal["quoted", "done"]
"""Why a text is not translated: formulas quote it, or it has a translation or must not change."""

MOST_TEXT_CHARACTERS: Final = 50_000
"""A text longer than this, with its tags, is split; the server accepts texts of twice this."""
MOST_KEPT_CHARACTERS: Final = 1000
"""Maximum length of an untranslated element whose text is shown to the model."""
SOFT_HYPHEN: Final = "\u00ad"
"""Shows where a word of the source may be divided; models do not know a word with it."""
_MOST_REFERENCE_CHARACTERS: Final = 40
_SPACE: Final = " \t\r\n\f\0"
"""Characters at the ends of a text that are not part of it; browsers ignore NUL."""
_COVERED: Final = f" \t\u00a0\u202f{BREAK}"
"""Characters that an element without text may cover in a translation."""
_NOTE: Final = re.compile(r"\d{1,3}(?:[,\u2013-]\d{1,3})*")
_WORD_BEFORE_NOTE: Final = re.compile(r"[^\W\d_]{3}[.,;:!?\"'\u2019\u201d\u00bb)]{0,3}$")
_MOST_NOTE_PIECES: Final = 6
_MOST_NOTE_CHARACTERS: Final = 8


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
    """Bytes that are copied to the output.

    Attributes:
        content: the bytes.
        left: why they are not translated, if they have a text that otherwise would be.
    """

    content: bytes
    left: LeftReason | None = None


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
        kind: what it does to the words beside it, if it has no text.
        spelling: spelling of the text between the two tags; None: that of the surrounding text.
    """

    parts: tuple[bytes | Segment, ...]
    text: str = ""
    pair: tuple[str, bool] | None = None
    kind: OpaqueKind = "object"
    spelling: Spelling | None = None


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
    if space := max(written.rfind(character, most // 2, most) for character in _SPACE) + 1:
        return space
    reference = written.rfind("&", max(0, most - _MOST_REFERENCE_CHARACTERS), most)
    return most if reference < 0 else reference


class Tag(NamedTuple):
    """The bytes of a code, around its text, or in place of it if the code is opaque.

    Attributes:
        parts: bytes of the start tag or the opaque element, and the texts of its attributes.
        closing: bytes of the end tag.
        spelling: spelling of the text in the element; None: that of the surrounding text.
        is_opaque: whether the code stands for an element that moves as a whole.
        before: white space before an opaque element without text, which is not in the text.
        after: the same after it.
    """

    parts: tuple[bytes | Segment, ...]
    closing: bytes = b""
    spelling: Spelling | None = None
    is_opaque: bool = False
    before: str = ""
    after: str = ""


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
        originals = [attribute.original for attribute in self.attributes]
        written = originals if attributes is None else list(attributes)
        own = tuple((begin, end) for begin, end, _ in self.markup.codes)
        if not translation.strip():
            translation, placed = self.text, PlacedCodes(own)
        if translation == self.text and placed.codes == own and written == originals:
            return self.original
        begin, end = self._core(translation)
        shifted = [(first - begin, last - begin) for first, last in placed.codes]
        spans, children = fitted(self.markup.codes, shifted, end - begin)
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
        spaces = [(tag.before, tag.after) if tag.is_opaque else None for tag in self.tags]
        gaps = Gaps(self.text, self.markup.codes, spaces)
        # A stack instead of recursion: codes may be nested thousands deep.
        entered = [(len(translation), b"", self.spelling, iter(children[-1]))]
        position = 0
        while entered:
            end, closing, spelling, inner = entered[-1]
            index = next(inner, None)
            until = end if index is None else spans[index][0]
            if text := translation[position:until]:
                yield spelling.raw(gaps.before_text(text))
                text = text.replace(BREAK, " ") if gaps.has_breaks else text
                yield spelling.write(text.replace("\n", self.line_end))
            position = until
            if index is None:
                yield closing
                entered.pop()
                continue
            tag = self.tags[index]
            covered = translation[position : spans[index][1]]
            if not tag.is_opaque:
                yield spelling.raw(gaps.before_tag(translation[position : position + 1]))
                yield openings[index]
                inside = tag.spelling or spelling
                entered.append((spans[index][1], tag.closing, inside, iter(children[index])))
            elif gaps.is_object(index):
                yield spelling.raw(gaps.before_object(index))
                yield openings[index]
                position += len(covered) - len(covered.lstrip(_COVERED))
            else:
                begin, last, _ = self.markup.codes[index]
                yield spelling.raw(gaps.before_text(covered or self.text[begin:last]))
                yield openings[index]
                position = spans[index][1]

    def _openings(self, attributes: Sequence[bytes]) -> list[bytes]:
        written = iter(attributes)
        return [
            b"".join(next(written) if isinstance(part, Segment) else part for part in tag.parts)
            for tag in self.tags
        ]


def fitted(
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
    requested = [*spans[: len(codes)], *[(length, length)] * (len(codes) - len(spans))]
    valid = [*requested, (0, length)]
    for parent in (-1, *range(len(codes))):
        children[parent].sort(key=lambda index: (*requested[index], index))
        position, last = valid[parent]
        for index in children[parent]:
            begin = min(max(requested[index][0], position), last)
            end = min(max(requested[index][1], begin), last)
            is_empty = codes[index].begin == codes[index].end
            position = begin if is_empty else end
            valid[index] = begin, position
    return valid, children


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
    elements = list(_with_objects(_pairs_as_elements(pieces), spelling))
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
                rest = text.lstrip(_SPACE) if side else text.rstrip(_SPACE)
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
        """Add an element without text.

        Args:
            piece: the element.
            spaces: white space before and after it, which the words do not have.
            following: the next character of the text; empty: none.
            spelling: spelling of the white space.
        """
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


def _with_objects(pieces: Sequence[Piece], spelling: Spelling) -> Iterator[Piece]:
    """Yields the pieces, with each element that moves as a whole as one piece.

    These are the elements without text, and numbers of footnotes.
    """
    partners = _partners(pieces)
    texts = [
        0,
        *accumulate(_has_text(piece) or _has_line_feed(piece, spelling) for piece in pieces),
    ]
    index = 0
    while index < len(pieces):
        piece, partner = pieces[index], partners[index]
        end = index + 1
        if isinstance(piece, Opening) and partner is not None:
            is_empty = texts[index] == texts[partner]
            is_note = _is_note(pieces, index, partner)
            end = partner + 1 if is_empty or is_note else end
        if end == index + 1:
            yield piece
        else:
            parts = _raw_parts(pieces[index:end], spelling)
            kinds = {piece.kind for piece in pieces[index:end] if isinstance(piece, Opaque)}
            kind: OpaqueKind = "break" if "break" in kinds else "hidden" if is_note else "object"
            yield Opaque(tuple(parts), kind=kind)
        index = end


def _raw_parts(pieces: Sequence[Piece], spelling: Spelling) -> Iterator[bytes | Segment]:
    """Yields the bytes of an element, and the texts of its attributes."""
    around = [spelling]
    for piece in pieces:
        if isinstance(piece, Words):
            yield around[-1].raw(piece.written)
            continue
        yield from piece.parts
        if isinstance(piece, Opening):
            around.append(piece.spelling or around[-1])
        elif isinstance(piece, Closing):
            around.pop()


def _is_note(pieces: Sequence[Piece], begin: int, end: int) -> bool:
    """Whether an element is the number of a footnote, directly after a word.

    Models write other words, or no number, for a word with a number, such as `price1`. So it is
    not part of the text. Units and formulas, such as `km2` and `H2O`, have shorter words.

    Args:
        pieces: pieces of a block.
        begin: index of the element's start tag.
        end: index of its end tag.
    """
    if end - begin > _MOST_NOTE_PIECES or not begin:
        return False
    behind = pieces[end + 1] if end + 1 < len(pieces) else None
    inner = [piece for piece in pieces[begin : end + 1] if isinstance(piece, (Words, Opaque))]
    return (
        _WORD_BEFORE_NOTE.search(_words_before(pieces, begin)) is not None
        and not (isinstance(behind, Words) and behind.written[:1].isalnum())
        and len(inner) == 1
        and isinstance(inner[0], Words)
        and _NOTE.fullmatch(inner[0].written) is not None
    )


def _words_before(pieces: Sequence[Piece], index: int) -> str:
    """The last characters of the words before a piece; tags may be between."""
    words = ""
    for piece in reversed(pieces[max(0, index - _MOST_NOTE_PIECES) : index]):
        if isinstance(piece, Opaque) or len(words) >= _MOST_NOTE_CHARACTERS:
            break
        if isinstance(piece, Words):
            words = piece.written[-_MOST_NOTE_CHARACTERS:] + words
    return words


def _has_line_feed(piece: Piece, spelling: Spelling) -> bool:
    return isinstance(piece, Words) and "\n" in spelling.read(piece.written)


def _shown(piece: Piece) -> str:
    """The text in place of a tag."""
    if not isinstance(piece, Opaque):
        return ""
    return piece.text or (BREAK if piece.kind == "break" else "")


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
    """Returns the pieces with properly nested pairs converted to elements.

    A pair that shows nothing, with nothing in it, is one object.
    """
    nested: list[Piece | None] = list(pieces)
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
                if index == first + 1 and piece.kind == "hidden":
                    nested[first] = None
                    nested[index] = replace(piece, parts=(*_parts(pieces[first]), *piece.parts))
                    continue
                nested[first] = Opening(_parts(pieces[first]), piece.spelling)
                nested[index] = Closing(tuple(p for p in piece.parts if isinstance(p, bytes)))
    return [piece for piece in nested if piece is not None]


def _left(entered: list[tuple[str, int]], waiting: Counter[str], name: str) -> int:
    """Pop up to the last entry with a name, and return its index."""
    while True:
        innermost, index = entered.pop()
        waiting[innermost] -= 1
        if innermost == name:
            return index


def _parts(piece: Piece) -> tuple[bytes | Segment, ...]:
    return () if isinstance(piece, Words) else piece.parts


def _has_text(piece: Piece) -> bool:
    if isinstance(piece, Words):
        return not piece.written.isspace() and piece.written != ""
    return isinstance(piece, Opaque) and piece.text != ""

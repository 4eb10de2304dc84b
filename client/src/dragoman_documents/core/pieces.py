"""Pieces of a block, as readers make them: words, tags, and elements that move as a whole."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from dragoman_documents.core.gaps import OpaqueKind
from dragoman_documents.core.segments import Segment, Spelling

MOST_TEXT_CHARACTERS: Final = 50_000
"""A text longer than this, with its tags, is split; the server accepts texts of twice this."""
MOST_KEPT_CHARACTERS: Final = 1000
"""Maximum length of an untranslated element whose text is shown to the model."""
SPACE: Final = " \t\r\n\f\0"
"""Characters at the ends of a text that are not part of it; browsers ignore NUL."""
_MOST_REFERENCE_CHARACTERS: Final = 40
_NOTE: Final = re.compile(r"\d{1,3}(?:[,\u2013-]\d{1,3})*")
_WORD_BEFORE_NOTE: Final = re.compile(r"[^\W\d_]{3}[.,;:!?\"'\u2019\u201d\u00bb)]{0,3}$")
_LETTERS_OF_NOTE: Final = re.compile(r"[A-Za-z]{1,2}|[ivx]{3,4}|[*\u2020\u2021]{1,3}")
_BEFORE_LETTERS: Final = re.compile(r"[a-z\u00df-\u00ff][.,;:!?\"'\u2019\u201d\u00bb)]{0,3}$")
"""Not in `XXI<sup>e</sup>`."""
_RAISED: Final = re.compile(rb"<su[bp]\b", re.IGNORECASE)
_MOST_NOTE_PIECES: Final = 6
_MOST_NOTE_CHARACTERS: Final = 8


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
    if space := max(written.rfind(character, most // 2, most) for character in SPACE) + 1:
        return space
    reference = written.rfind("&", max(0, most - _MOST_REFERENCE_CHARACTERS), most)
    return most if reference < 0 else reference


def with_objects(pieces: Sequence[Piece], spelling: Spelling) -> Iterator[Piece]:
    """Yields the pieces, with each element that moves as a whole as one piece.

    These are the elements without text, and numbers and letters of footnotes.
    """
    partners = partners_of(pieces)
    texts = [
        0,
        *accumulate(has_text(piece) or _has_line_feed(piece, spelling) for piece in pieces),
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
    """Whether an element is the number or raised letter of a footnote, directly after a word.

    Models write other words, or no number, for a word with a number, such as `price1`. So it is
    not part of the text. Units and formulas, such as `km2` and `H2O`, have shorter words.
    """
    if end - begin > _MOST_NOTE_PIECES or not begin:
        return False
    behind = pieces[end + 1] if end + 1 < len(pieces) else None
    inner = [piece for piece in pieces[begin : end + 1] if isinstance(piece, (Words, Opaque))]
    before = _words_before(pieces, begin)
    is_raised = _BEFORE_LETTERS.search(before) is not None and any(
        isinstance(part, bytes) and _RAISED.match(part)
        for piece in pieces[begin:end]
        if isinstance(piece, Opening)
        for part in piece.parts
    )
    return (
        _WORD_BEFORE_NOTE.search(before) is not None
        and not (isinstance(behind, Words) and behind.written[:1].isalnum())
        and len(inner) == 1
        and isinstance(inner[0], Words)
        and (
            _NOTE.fullmatch(inner[0].written) is not None
            or (is_raised and _LETTERS_OF_NOTE.fullmatch(inner[0].written) is not None)
        )
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


def partners_of(pieces: Sequence[Piece]) -> list[int | None]:
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


def paired(pieces: Sequence[Piece]) -> list[Piece]:
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


def has_text(piece: Piece) -> bool:
    """Whether a piece is more than a tag or white space."""
    if isinstance(piece, Words):
        return not piece.written.isspace() and piece.written != ""
    return isinstance(piece, Opaque) and piece.text != ""

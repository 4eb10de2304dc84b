"""A text of a document with its inline elements as codes, and the bytes between texts.

A segment writes its translation with the original bytes of its tags: a document is never
serialized from a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from dragoman_options.markup import Code, Markup, PlacedCodes, Span

from dragoman_documents.core.gaps import BREAK, Gaps

SegmentKind = Literal["text", "attribute", "title"]
LeftReason = Literal["quoted", "done"]
"""Why a text is not translated: formulas quote it, or it has a translation or must not change."""

_COVERED: Final = f" \t\u00a0\u202f{BREAK}"
"""Characters that an element without text may cover in a translation."""


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

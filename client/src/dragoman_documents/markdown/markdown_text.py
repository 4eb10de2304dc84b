"""Texts of Markdown, whose translations get the escapes that they need."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dragoman_options.markup import PlacedCodes, Span

from dragoman_documents.core.segments import Segment, Tag, fitted
from dragoman_documents.markdown.markdown_blocks import BlockKind
from dragoman_documents.markdown.markdown_inlines import InlineKind, flanks

_SPACE: Final = re.compile(r"[\s\0-\x1f\x7f]")
_SPECIAL: Final = re.compile(r"[\\*_`\[\]<&|~${!]")
_ENTITY = re.compile(r"&#?\w{1,32};")
_TEMPLATE = re.compile(r"\{(?=[{%#.:]|[\w-]+=)|\$(?=[^\s$])[^$]*\$")
_BLOCK = re.compile(
    r" *+((?:#{1,6}|[-+])(?=[ \n]|$)|-[- ]*(?=\n|$)|===|=+ *(?=\n|$)|>|:|!!!|\?\?\?|\+\+\+"
    r"|\d{1,9}(?=[.)](?:[ \n]|$)))"
)
"""What begins a block at the beginning of a line; a backslash before it, or behind digits, keeps it
text."""
_CLOSING_HASHES: Final = re.compile(r"(?<= )#+ *$")
_SAFE = re.compile(r"[^\W\d_]|[\"'(\u2018-\u201f\u00ab\u00bb]")
"""How a word begins that begins no block at the beginning of a line."""
_MOST_WIDTH: Final = 120
PIPE: Final = "\0"
"""Stands for a vertical bar that no backslash can protect."""


class _EscapedText(Segment):
    """A text whose translations have their escapes already."""

    def _written(
        self,
        translation: str,
        spans: Sequence[Span],
        children: Sequence[Sequence[int]],
        attributes: Sequence[bytes],
    ) -> Iterator[bytes]:
        """See `Segment`; there is a space between two pieces of code."""
        tick, last = "`".encode(self.spelling.encoding), b""
        for part in super()._written(translation, spans, children, attributes):
            if last.endswith(tick) and part.startswith(tick):
                yield self.spelling.raw(" ")
            yield part
            last = part or last


@dataclass(frozen=True)
class MarkdownText(Segment):
    """A paragraph, heading or cell.

    Attributes:
        block: what it is.
        kinds: kind of each code.
        titles: index of the code of each link with a title, its title, and the bytes before and
            after this; they follow the texts in tags.
        width: number of characters of the longest line, if there are several; the translation is
            broken into lines of at most this length.
    """

    block: BlockKind = "text"
    kinds: tuple[InlineKind, ...] = ()
    titles: tuple[tuple[int, Segment, bytes, bytes], ...] = ()
    width: int = 0

    @property
    def attributes(self) -> tuple[Segment, ...]:
        """See `Segment`."""
        return (*super().attributes, *(title for _, title, _, _ in self.titles))

    def write(
        self, translation: str, placed: PlacedCodes, attributes: Sequence[bytes] | None = None
    ) -> bytes:
        """See `Segment`."""
        originals = [attribute.original for attribute in self.attributes]
        written = originals if attributes is None else list(attributes)
        own = tuple((begin, end) for begin, end, _ in self.markup.codes)
        if not translation.strip():
            translation, placed = self.text, PlacedCodes(own)
        if translation == self.text and placed.codes == own and written == originals:
            return self.original
        text = _SPACE.sub(" ", translation)
        begin, text = len(text) - len(text.lstrip()), text.strip()
        spans = self._fitted(text, [(first - begin, last - begin) for first, last in placed.codes])
        tags, spans = self._tight(text, spans)
        spans = self._fitted(text, spans)
        count = len(written) - len(self.titles)
        for (index, _, before, after), title in zip(self.titles, written[count:], strict=True):
            tags[index] = tags[index]._replace(closing=before + title + after)
        text, spans = self._escaped(self._wrapped(text, spans), spans)
        if self.block == "title":  # else the line below it would make it a table
            text = text.replace("|", PIPE)
        escaped = _EscapedText(
            self.text + "\0",
            self.markup,
            b"",
            self.spelling,
            tuple(tags),
            line_end=self.line_end,
        )
        return escaped.write(text, PlacedCodes(tuple(spans)), written[:count])

    def _tight(self, text: str, spans: Sequence[Span]) -> tuple[list[Tag], list[Span]]:
        """Returns tags and spans such that each emphasis is one, and each line break is one.

        Emphasis begins and ends at a word, and two emphases do not touch. One for which there is no
        word is dropped.
        """
        tags, tight = list(self.tags), list(spans)
        ends: dict[int | None, int] = {}
        """Where the last emphasis ends in each element."""
        line_begin = 0
        others = {
            at
            for span, kind in zip(spans, self.kinds, strict=True)
            for at in span
            if kind != "emphasis"
        }
        order = sorted(
            range(len(tight)),
            key=lambda i: (-1 if (p := self.markup.codes[i].parent) is None else p, tight[i], i),
        )
        for index in order:
            kind, parent = self.kinds[index], self.markup.codes[index].parent
            around = (0, len(text)) if parent is None else tight[parent]
            if kind == "break" and self._is_line_end(index):
                begin = tight[index][0]
                if line_begin < begin < len(text) and text[line_begin:begin].strip():
                    line_begin = begin
                else:
                    tags[index] = Tag((b"",))
            if kind != "emphasis":
                continue
            mark = self.tags[index].parts[0]
            assert isinstance(mark, bytes)
            first = max(around[0], ends.get(parent, 0))
            span = _emphasis(text, tight[index], (first, around[1]), mark[:1].decode(), others)
            if span is None:
                tags[index] = Tag((b"",))
            else:
                tight[index] = span
                ends[parent] = span[1] + 1
        return tags, tight

    def _fitted(self, text: str, spans: Sequence[Span]) -> list[Span]:
        return fitted(self.markup.codes, spans, len(text))[0][: len(self.markup.codes)]

    def _is_line_end(self, index: int) -> bool:
        part = self.tags[index].parts[0]
        return isinstance(part, bytes) and b"\n" in part

    def _wrapped(self, text: str, spans: Sequence[Span]) -> str:
        """Returns the text with line feeds, if the source has some."""
        if not self.width:
            return text
        kinds = zip(spans, self.kinds, strict=True)
        breaks = {at for span, kind in kinds if kind == "break" for at in span}
        characters, begin, last = list(text), 0, 0
        for match in re.finditer(r"(?<! ) (?! )|$", text):
            at = match.start()
            if at - begin > self.width and last > begin:
                characters[last] = "\n"
                begin = last + 1
            if at in breaks or at + 1 in breaks:
                begin = at + 1
            elif _SAFE.match(text, at + 1):
                last = at
        return "".join(characters)

    def _escaped(self, text: str, spans: Sequence[Span]) -> tuple[str, list[Span]]:
        """Returns the text with backslashes, and the spans in it."""
        borders = {at for span in spans for at in span}
        marked = {*_escapes(text, borders, is_cell=self.block == "cell")}
        kinds = zip(spans, self.kinds, strict=True)
        for at in (0, *(begin for (begin, _), kind in kinds if kind == "break")):
            if match := _BLOCK.match(text, at):
                marked.add(match.end() if match[1].isdigit() else match.start(1))
        if match := _CLOSING_HASHES.search(text):
            marked.add(match.start())
        inserted = sorted(marked)
        parts = (text[b:e] for b, e in zip([0, *inserted], [*inserted, len(text)], strict=True))
        return "\\".join(parts), [
            (begin + bisect_left(inserted, begin), end + bisect_left(inserted, end))
            for begin, end in spans
        ]


def title_of(text: str, quote: str) -> str:
    """Returns a title, or the text instead of a picture, with its escapes."""
    return re.sub(rf"([\\`*_\[\]<&|~${{}}!{re.escape(quote)}])", r"\\\1", _SPACE.sub(" ", text))


def _escapes(text: str, borders: set[int], *, is_cell: bool) -> Iterator[int]:
    """Yields the offsets of characters that would have a meaning."""
    for match in _SPECIAL.finditer(text):
        at, character = match.start(), match[0]
        before, after = text[at - 1 : at] if at else "", text[at + 1 : at + 2]
        is_at_border = not after or at + 1 in borders
        if (
            character in "*`[]~"
            or (character == "|" and is_cell)
            or (character == "\\" and (is_at_border or not (after.isalnum() or after == " ")))
            or (
                character == "_"
                and (is_at_border or at in borders or not (before.isalnum() and after.isalnum()))
            )
            or (character == "<" and (is_at_border or after.isalpha() or after in "/!?"))
            or (character == "&" and _ENTITY.match(text, at))
            or (character in "{$" and _TEMPLATE.match(text, at))
            or (character == "!" and is_at_border and after)
        ):
            yield at


def _emphasis(text: str, span: Span, around: Span, mark: str, borders: set[int]) -> Span | None:
    """Returns a span that can be emphasized; None: there is none.

    Args:
        text: the text.
        span: where the emphasis is wanted.
        around: where it may be.
        mark: its delimiter.
        borders: where other elements begin and end.
    """
    begin, end = max(span[0], around[0]), min(span[1], around[1])
    while begin < end and text[begin] == " ":
        begin += 1
    while begin < end and text[end - 1] == " ":
        end -= 1
    if begin >= end:  # it takes the word before it
        end = min(max(end, around[0]), around[1])
        while end > around[0] and text[end - 1] == " ":
            end -= 1
        begin = end
    is_open = (
        begin < end
        and flanks(
            text[begin - 1 : begin] if begin else "", "." if begin in borders else text[begin], mark
        )[0]
    )
    while not is_open and begin > around[0] and text[begin - 1] != " ":
        begin -= 1
    is_closed = (
        begin < end
        and flanks("." if end in borders else text[end - 1], text[end : end + 1], mark)[1]
    )
    while not is_closed and end < around[1] and text[end] != " ":
        end += 1
    return (begin, end) if begin < end and text[begin:end].strip() else None


def with_width(segment: MarkdownText, lines: Sequence[Span], line_end: str) -> MarkdownText:
    """Returns a text of several lines, which its translation has too.

    Args:
        segment: the text.
        lines: begin and end of the lines.
        line_end: what is between two lines.
    """
    width = min(max(end - begin for begin, end in lines), _MOST_WIDTH)
    return replace(segment, width=max(width, 20), line_end=line_end)

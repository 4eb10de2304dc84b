"""Reads Markdown: CommonMark, and the tables, footnotes, task lists and alerts of GitHub."""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from dragoman_options.markup import MOST_CODES, Code, Markup, Span

from dragoman_documents.core.blocks import SOFT_HYPHEN
from dragoman_documents.core.gaps import BREAK
from dragoman_documents.core.pieces import MOST_KEPT_CHARACTERS
from dragoman_documents.core.segments import Raw, Segment, Spelling, Tag
from dragoman_documents.markdown.markdown_blocks import Block, MarkdownBlocks
from dragoman_documents.markdown.markdown_inlines import Inline, InlineKind, inlines_of
from dragoman_documents.markdown.markdown_text import PIPE, MarkdownText, title_of, with_width
from dragoman_documents.text_files.text_reader import TextReader

_ESCAPED: Final = re.compile(
    r"\\([!-/:-@\[-`{-~])|&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]\w{1,31});|\n"
)
_BLANK_LINES: Final = re.compile(r"\n(?:[ \t]*\n)+")


class MarkdownReader(TextReader):
    """Reads a file; see `Reader`."""

    def __init__(self, source_language: str | None) -> None:
        """Start before the first chunk.

        Args:
            source_language: language of the file, if known; for the HTML in it.
        """
        super().__init__()
        self._source_language = source_language

    def parts(self, text: str, encoding: str) -> Iterator[Raw | Segment]:
        """See `TextReader`."""
        document = MarkdownBlocks(text)
        position = 0
        for block in document.blocks:
            begin, end = block.lines[0][0], block.lines[-1][1]
            yield Raw(text[position:begin].encode(encoding))
            if block.kind == "html":
                yield from self._html(text[begin:end], encoding)
            else:
                yield _Builder(text, block, document.labels, encoding).part()
            position = end
        yield Raw(text[position:].encode(encoding))

    def _html(self, written: str, encoding: str) -> Iterator[Raw | Segment]:
        """Yields the texts of HTML; none gets an empty line, which would end the HTML."""
        from dragoman_documents.html.html_reader import HtmlReader

        reader = HtmlReader(encoding="utf-8", source_language=self._source_language)
        for part in [*reader.feed(written.encode()), *reader.close()]:
            if encoding != "utf-8":
                yield Raw(written.encode(encoding))
                return
            yield part if isinstance(part, Raw) else _without_blank_lines(part)


def _without_blank_lines(segment: Segment) -> Segment:
    spelling = segment.spelling

    def write(text: str) -> bytes:
        return spelling.write(_BLANK_LINES.sub("\n", text.replace("\r", " ")))

    tags = tuple(
        tag._replace(
            parts=tuple(
                _without_blank_lines(part) if isinstance(part, Segment) else part
                for part in tag.parts
            )
        )
        for tag in segment.tags
    )
    return replace(segment, spelling=replace(spelling, write=write), tags=tags)


class _Builder:
    """Makes the text of a block."""

    def __init__(self, text: str, block: Block, labels: set[str], encoding: str) -> None:
        self._text, self._block, self._labels, self._encoding = text, block, labels, encoding
        self._written = "\n".join(text[begin:end] for begin, end in block.lines)
        self._begins = [0]
        """Where each line begins in the text of the block."""
        for begin, end in block.lines[:-1]:
            self._begins.append(self._begins[-1] + end - begin + 1)
        self._texts: list[str] = []
        self._length = 0
        self._codes: list[Code] = []
        self._tags: list[Tag] = []
        self._kinds: list[InlineKind] = []
        self._kept: list[Span] = []
        self._titles: list[tuple[int, Segment, bytes, bytes]] = []

    def part(self) -> Raw | Segment:
        """Returns the text, or its bytes if there is nothing to translate."""
        lines = self._block.lines
        original = self._text[lines[0][0] : lines[-1][1]].encode(self._encoding)
        self._add(inlines_of(self._written, self._labels))
        letters = list("".join(self._texts))
        for begin, end in self._kept:
            letters[begin:end] = " " * (end - begin)
        images = any(isinstance(part, Segment) for tag in self._tags for part in tag.parts)
        if not (any(map(str.isalpha, letters)) or images) or len(self._codes) > MOST_CODES:
            return Raw(original)
        segment = MarkdownText(
            "".join(self._texts),
            Markup(tuple(self._codes), tuple(self._kept)),
            original,
            self._spelling(str),
            tuple(self._tags),
            block=self._block.kind,
            kinds=tuple(self._kinds),
            titles=tuple(self._titles),
        )
        if len(lines) == 1:
            return segment
        return with_width(segment, lines, self._text[lines[0][1] : lines[1][0]])

    def _spelling(self, escaped: Callable[[str], str]) -> Spelling:
        encoding = self._encoding
        return Spelling(
            encoding,
            _plain,
            lambda text: escaped(text).replace(PIPE, "&#124;").encode(encoding, "replace"),
        )

    def _source(self, begin: int, end: int) -> bytes:
        """The bytes of a part of the block, with what is between its lines."""
        if begin == end:
            return b""
        return self._text[self._offset(begin) : self._offset(end - 1) + 1].encode(self._encoding)

    def _offset(self, at: int) -> int:
        line = bisect_right(self._begins, at) - 1
        return self._block.lines[line][0] + at - self._begins[line]

    def _add(self, inlines: list[Inline]) -> None:
        entered: list[tuple[int, Inline]] = []
        """Index of the code of each open element."""
        position = 0
        for inline in inlines:
            if inline.begin < position:
                continue  # within an element that moves as a whole
            position = self._leave(entered, inline.begin, position)
            self._add_text(position, inline.begin)
            self._codes.append(
                Code(self._length, self._length, entered[-1][0] if entered else None)
            )
            self._kinds.append(inline.kind)
            if inline.kind in ("emphasis", "link", "tag"):
                entered.append((len(self._codes) - 1, inline))
                self._tags.append(self._tag(inline))
                position = inline.inner_begin
            else:
                self._add_opaque(inline)
                position = inline.end
        position = self._leave(entered, len(self._written), position)
        self._add_text(position, len(self._written))

    def _leave(self, entered: list[tuple[int, Inline]], begin: int, position: int) -> int:
        """End the elements that end before an offset; returns the new position."""
        while entered and entered[-1][1].end <= begin:
            index, inline = entered.pop()
            self._add_text(position, inline.inner_end)
            self._codes[index] = self._codes[index]._replace(end=self._length)
            position = inline.end
        return position

    def _add_text(self, begin: int, end: int) -> None:
        self._add_shown(_plain(self._written[begin:end]))

    def _add_shown(self, shown: str) -> None:
        self._texts.append(shown)
        self._length += len(shown)

    def _tag(self, inline: Inline) -> Tag:
        opening = self._source(inline.begin, inline.inner_begin)
        closing = self._closing(inline)
        if inline.title:
            before = self._source(inline.inner_end, inline.title[0])
            after = self._source(inline.title[1], inline.end)
            self._titles.append((len(self._codes) - 1, self._title(*inline.title), before, after))
        return Tag((opening,), closing)

    def _closing(self, inline: Inline) -> bytes:
        if inline.label:
            return f"][{' '.join(inline.label.split())}]".encode(self._encoding)
        return self._source(inline.inner_end, inline.end)

    def _add_opaque(self, inline: Inline) -> None:
        """Add an element that moves as a whole."""
        parts: tuple[bytes | Segment, ...] = (self._source(inline.begin, inline.end),)
        shown = ""
        if inline.kind == "break":
            shown = BREAK
        elif inline.kind == "kept":
            inner = self._written[inline.inner_begin : inline.inner_end]
            shown = _plain(inner.strip("`<>")).strip()
            shown = "" if len(shown) > MOST_KEPT_CHARACTERS else shown
        elif inline.kind == "image":
            spans = [
                span for span in ((inline.inner_begin, inline.inner_end), inline.title) if span
            ]
            ends = [inline.begin, *(at for span in spans for at in span), inline.end]
            between = [self._source(b, e) for b, e in zip(ends[::2], ends[1::2], strict=True)]
            between[-1] = self._closing(inline) if inline.label else between[-1]
            texts = [self._title(*span) for span in spans]
            parts = (
                between[0],
                *(part for pair in zip(texts, between[1:], strict=True) for part in pair),
            )
        self._tags.append(Tag(parts, is_opaque=True))
        self._add_shown(shown)
        if shown:
            self._codes[-1] = self._codes[-1]._replace(end=self._length)
        if shown and inline.kind == "kept":
            self._kept.append((self._length - len(shown), self._length))

    def _title(self, begin: int, end: int) -> Segment:
        """The title of a link, or the text instead of a picture."""
        quote = self._written[end : end + 1]
        spelling = self._spelling(partial(title_of, quote=quote))
        text = _plain(self._written[begin:end])
        return Segment(text, Markup(), self._source(begin, end), spelling, kind="attribute")


def _plain(written: str) -> str:
    """Returns text without its escapes."""
    text = _ESCAPED.sub(
        lambda match: match[1] or html.unescape(match[0].replace("\n", " ")), written
    )
    return text.replace(SOFT_HYPHEN, "")

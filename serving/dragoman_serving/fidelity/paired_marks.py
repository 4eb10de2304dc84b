r"""Finds marks that enclose words: `**not**`, `[b]not[/b]`, `\emph{not}`, `[not](address)`.

A mark encloses words if it comes in a pair: one before a word, and one behind a word. Unpaired
ones, and those of `2*3*4`, `*args`, `snake_case` and `__name__`, enclose none. Marks of the
direction of text (U+2068 and U+2069) may come alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from dragoman.kernel.texts.cutting import Span
from dragoman_serving.fidelity.literals import DIRECTIONS, blanked, known_literals, tag_spans
from dragoman_serving.fidelity.names import LISTS

_NAME = re.compile(r"</?([^\s/>]+)")


class Tag(NamedTuple):
    """A tag or a mark, from `begin` to `end`.

    Attributes:
        begin: where it begins.
        end: where it ends.
        name: that of its element; its counterpart has the same.
        opens: whether it begins its element, or ends it; None: it is an empty element.
    """

    begin: int
    end: int
    name: str
    opens: bool | None

    @property
    def is_invisible(self) -> bool:
        """Whether it is a mark of the direction of text."""
        return self.name != "" and self.name in DIRECTIONS

    @property
    def span(self) -> Span:
        """Begin and end."""
        return self.begin, self.end


_LENGTHS = {"*": (1, 2, 3), "_": (1, 2, 3), "~": (1, 2), "'": (2, 3, 5), "=": (2,), "|": (2,)}
"""Marks that are the same on both sides, and how often the character is repeated."""
_BB_NAMES = (
    "b|i|u|s|p|url|quote|color|colour|size|font|center|left|right|indent|spoiler|email|h[1-6]|sub"
    "|sup|small|big|li|td|th"
)
_LATEX_NAMES = (
    "textbf|textit|textsl|textsc|textsf|textrm|textmd|textup|textnormal|emph|underline|uline|mbox"
    "|part|chapter|section|subsection|subsubsection|paragraph|subparagraph|title|caption|enquote"
)
_ISOLATES, _EMBEDDINGS = "\u2066\u2067\u2068", "\u202a\u202b\u202d\u202e"
_ENDS_ISOLATE, _ENDS_EMBEDDING = "\u2069", "\u202c"
_LATEX = re.compile(rf"\\(?:{_LATEX_NAMES})\*?(?:\[[^\[\]\n]{{0,200}}\])?\{{")
_TOKEN = re.compile(
    r"(?P<same>([*_~'=|])\2*+)"
    rf"|(?P<bb>\[(?P<end>/)?(?P<name>{_BB_NAMES})(?(end)|(?:=[^\[\]\n]*)?)\])"
    r"|(?P<wiki>\[\[(?:[^\[\]|\n]{1,200}\|)?)|(?P<wiki_end>\]\])"
    r"|(?P<link>!?\[)"
    r"|(?P<link_end>\]\((?=[^\s()]*[/.#:{}%$@_])"
    r"(?:[^\s()]|\([^\s()]{0,200}\)){1,2000}(?: \"[^\"\n]{0,200}\")?\))"
    r"|(?P<bracket>\])"
    rf"|(?P<latex>{_LATEX.pattern})|(?P<brace>\{{)"
    r"|(?P<latex_end>\})"
    rf"|(?P<direction>[{DIRECTIONS}])"
    r"|(?P<line>[\r\n])"
)
_HINT = re.compile(rf"[*_~\[\\{DIRECTIONS}]|''|==|\|\|")
"""What every text with marks has."""
_LETTER = re.compile(r"[^\W\d_]")
_MARKS = r"[*_~'=|]++"
_ENCLOSES = re.compile(r"(?=[^\s.,;:!?)\]}/])")
_OPENS = re.compile(
    rf"(?:(?<![^\s(\[\]\"'“„‚‘«‹>¿¡—–…{DIRECTIONS}])|(?<=\\[nrt]))"  # noqa: RUF001
    rf"{_MARKS}{_ENCLOSES.pattern}"
)
"""A mark before a word, and behind no word, path or escape."""
_CLOSES = re.compile(rf"(?<![\s(\[{{\\/]){_MARKS}(?!\w)")
_ALONE = re.compile(rf"(?<=[(\[\"'“„‚‘«‹>]){_MARKS}(?=[)\]\"'”“‘’»›<])")  # noqa: RUF001
"""A mark of which a text speaks."""
_CLOSED_BY = {
    "wiki": "wiki_end",
    "link": "link_end",
    "latex": "latex_end",
    "brace": "latex_end",
    **dict.fromkeys(_ISOLATES, _ENDS_ISOLATE),
    **dict.fromkeys(_EMBEDDINGS, _ENDS_EMBEDDING),
}
_CALL = re.compile(r"[\w\\]\[")
_WORD = re.compile(r"\w+")
_DUNDER = re.compile(r"__\w+__")
"""A literal of a known form that may be words between marks."""


@lru_cache
def _emphasized() -> frozenset[str]:
    return frozenset((LISTS / "emphasized.txt").read_text("utf-8").split())


def may_have_marks(text: str) -> bool:
    """Whether a text may have marks: a quick check."""
    return _HINT.search(text) is not None


def tags_of(text: str, has_tags: bool, has_marks: bool, apart: Sequence[Span] = ()) -> list[Tag]:
    """Returns the tags and the paired marks of a sentence, in order.

    Args:
        text: the sentence.
        has_tags: whether it may have tags.
        has_marks: whether it may have marks.
        apart: spans that have no marks.
    """
    tags = [_tag(text, span) for span in tag_spans(text)] if has_tags else []
    if has_marks and may_have_marks(text):
        tags += _Marks(text, [*apart, *(tag.span for tag in tags)]).pairs()
        tags.sort()
    return tags


def _tag(text: str, span: Span) -> Tag:
    tag = text[slice(*span)]
    match = _NAME.match(tag)
    opens = False if tag.startswith("</") else None if tag.endswith("/>") else True
    return Tag(*span, match[1] if match else "", opens)


class _Open(NamedTuple):
    """A mark that may open an element; `kind` is that of the mark that closes it."""

    kind: str
    begin: int
    end: int
    is_mark: bool = True


class _Marks:
    """Pairs the marks of a sentence, in one pass."""

    def __init__(self, text: str, apart: Sequence[Span]) -> None:
        """Store a sentence and spans without marks."""
        self._text = text
        words = blanked(text, (match.span() for match in _LATEX.finditer(text)))
        literals = (
            literal.span
            for literal in known_literals(words)
            if not literal.is_sign and not _DUNDER.match(text, literal.begin)
        )
        self._apart = sorted([*literals, *apart])
        self._opened: list[_Open] = []
        self._kinds: Counter[str] = Counter()
        self._words_end = -1
        """Where the last part with a letter between marks ends."""

    def pairs(self) -> list[Tag]:
        """Returns the marks that have a counterpart, and those of directions."""
        marks: list[Tag] = []
        for match in self._tokens():
            if match.lastgroup == "line":
                marks += self._dropped(0)
            else:
                marks += self._read(match)
        return marks + self._dropped(0)

    def _tokens(self) -> Iterator[re.Match[str]]:
        """Yields what may be marks, outside tags and literals."""
        apart = iter(self._apart)
        part = next(apart, None)
        apart_end = at = 0
        for match in _TOKEN.finditer(self._text):
            begin, end = match.span()
            while part is not None and part[0] <= begin:
                apart_end = max(apart_end, part[1])
                part = next(apart, None)
            if _LETTER.search(self._text, at, begin):
                self._words_end = begin
            at = end
            if begin >= apart_end:
                yield match

    def _read(self, match: re.Match[str]) -> list[Tag]:
        """Opens or closes an element; returns its marks once it is closed."""
        kind, mark, (begin, end) = match.lastgroup or "", match[0], match.span()
        if kind == "same":
            return self._same(mark, begin, end)
        if kind == "direction":
            return self._direction(mark, begin, end)
        if kind == "bb":
            closes = f"[/{match['name']}]"
            return (self._closed if match["end"] else self._open)(closes, begin, end)
        if kind in _CLOSED_BY:
            is_call = kind == "link" and _CALL.match(self._text, max(begin - 1, 0)) is not None
            return self._open(_CLOSED_BY[kind], begin, end, kind != "brace" and not is_call)
        is_mark = kind != "bracket"
        return self._closed(kind if is_mark else "link_end", begin, end, is_mark)

    def _same(self, mark: str, begin: int, end: int) -> list[Tag]:
        """Reads a mark that is the same on both sides."""
        text = self._text
        if len(mark) not in _LENGTHS[mark[0]] or _ALONE.match(text, begin):
            return []
        if _CLOSES.match(text, begin) and (pair := self._closed(mark, begin, end)):
            return pair
        is_inner = bool(self._opened) and self._opened[-1].end == begin
        opens = _ENCLOSES.match(text, end) if is_inner else _OPENS.match(text, begin)
        return self._open(mark, begin, end) if opens else []

    def _direction(self, mark: str, begin: int, end: int) -> list[Tag]:
        if mark in _CLOSED_BY:
            return self._open(_CLOSED_BY[mark], begin, end)
        return self._closed(mark, begin, end) or [Tag(begin, end, mark, None)]

    def _open(self, kind: str, begin: int, end: int, is_mark: bool = True) -> list[Tag]:
        self._opened.append(_Open(kind, begin, end, is_mark))
        self._kinds[kind] += 1
        return []

    def _closed(self, kind: str, begin: int, end: int, is_mark: bool = True) -> list[Tag]:
        """Closes the last element of a kind."""
        if not self._kinds[kind]:
            return []
        last = len(self._opened) - 1
        while self._opened[last].kind != kind:
            last -= 1
        inner = self._dropped(last + 1)
        opening = self._opened.pop()
        self._kinds[kind] -= 1
        if not (opening.is_mark and is_mark and self._encloses_words(opening, begin)):
            return inner
        name = f"{kind} {opening.begin}"
        opened = Tag(opening.begin, opening.end, name, True)
        return [opened, *inner, Tag(begin, end, name, False)]

    def _encloses_words(self, opening: _Open, end: int) -> bool:
        """Whether what is between two marks may be words, and no number or identifier."""
        if opening.kind not in ("*", "~") and opening.kind[0] != "_":
            return True
        if self._words_end <= opening.end:
            return False
        word = _WORD.fullmatch(self._text, opening.end, end)
        if word is None or opening.kind[0] != "_":
            return True
        return "_" not in word[0] and (opening.kind != "__" or word[0].lower() in _emphasized())

    def _dropped(self, first: int) -> list[Tag]:
        """Removes opened elements from an index on, and returns the marks of directions."""
        dropped = self._opened[first:]
        del self._opened[first:]
        self._kinds.subtract(mark.kind for mark in dropped)
        return [
            Tag(mark.begin, mark.end, mark.kind, None)
            for mark in dropped
            if mark.kind in DIRECTIONS
        ]

"""The elements in a text of Markdown, such as links and bold words, as ranges of the text.

Source: https://spec.commonmark.org/0.31.2/#phase-2-inline-structure
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from dragoman_documents.markdown.markdown_blocks import normal_label

InlineKind = Literal["emphasis", "link", "image", "tag", "kept", "object", "break"]
"""`kept` is text that a translation must repeat; an `object` has no text."""

_ESCAPE = re.compile(r"\\[!-/:-@\[-`{-~]")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]\w{1,31});")
_TICKS = re.compile(r"`+")
_AUTOLINK = re.compile(r"<(?:[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*|[\w.+-]+@[\w.-]+)>")
_TAG = re.compile(
    r"<(?:(/?)([A-Za-z][\w-]*)(?>(?:\s+[\w:@.-]+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s\"'=<>`]+))?)*)\s*(/?)>"
    r"|!--[\s\S]*?-->)"
)
_MACRO = re.compile(r"\{\{[^{}]*\}\}|\{%[^{}]*%\}|\{(?:[#.:]|[\w-]+=)[^{}\n]*\}")
_MATH = re.compile(r"\$(?=[^\s$])[^$\n]*(?<=[^\s$\\])\$(?!\d)")
_FOOTNOTE = re.compile(r"\[\^[^\]\s]+\]")
_WIKI_LINK = re.compile(r"!?\[\[((?:[^\W_]|(?<=[^\W_])_+(?=[^\W_])|[ .,:/#|()'@-])+)\]\](?![(\[:])")
"""`[[Page]]`, as in wikis, without marks that could begin or end other elements."""
_DESTINATION = re.compile(
    r"\(\s*(?:<(?:[^<>\n\\]|\\.)*>|(?:[^\s()\\<]|\\.|\((?:[^\s()\\]|\\.)*\))*)"
)
_TITLE = re.compile(
    r"\s+(?:\"((?:[^\"\\]|\\[\s\S])*+)\"|'((?:[^'\\]|\\[\s\S])*+)'|\(((?:[^()\\]|\\[\s\S])*+)\))"
)
_LINK_END = re.compile(r"\s*\)")
_REFERENCE = re.compile(r"\[((?:[^\[\]\\]|\\.){0,999})\]")
_BREAK = re.compile(r"(?:[ \t]{2,}|\\)\n")
_DELIMITERS = re.compile(r"\*+|_+|~+")
_SPECIAL = re.compile(r"[\\&`<{$\[\]!*_~]|(?<![ \t])[ \t]{2,}\n")
_UNTRANSLATED: Final = frozenset({"code", "kbd", "samp", "var", "pre", "script", "style"})


class Inline(NamedTuple):
    """An element.

    Attributes:
        begin: where it begins.
        inner_begin: where its text begins.
        inner_end: where its text ends.
        end: where it ends.
        kind: what it is.
        title: begin and end of its title, if it has one.
        label: the label that is missing behind a link, or nothing.
    """

    begin: int
    inner_begin: int
    inner_end: int
    end: int
    kind: InlineKind
    title: tuple[int, int] | None = None
    label: str = ""


@dataclass
class _Run:
    """A run of delimiters of emphasis that are not used yet, from `begin` to `end`."""

    begin: int
    end: int
    character: str
    opens: bool
    closes: bool
    length: int


@dataclass
class _Bracket:
    begin: int
    is_image: bool
    runs: int
    inlines: int
    is_active: bool = True


def inlines_of(text: str, labels: Collection[str]) -> list[Inline]:
    """Returns the elements of a text, sorted; they do not overlap.

    Args:
        text: the text, with its syntax.
        labels: the normalized labels that the file defines.
    """
    scan = _Scan(text, labels)
    position = 0
    while match := _SPECIAL.search(text, position):
        position = scan.special(match.start())
    scan.emphasize(0)
    return _with_tags(sorted(scan.inlines, key=lambda inline: (inline.begin, -inline.end)), text)


class _Scan:
    """Reads a text from its beginning."""

    def __init__(self, text: str, labels: Collection[str]) -> None:
        self._text, self._labels = text, labels
        self.inlines: list[Inline] = []
        self._runs: list[_Run] = []
        self._brackets: list[_Bracket] = []
        self._lacking: set[int] = set()
        """Lengths of runs of backticks that do not occur any more."""
        self._has_comments = True

    def special(self, at: int) -> int:
        """Read what begins at a character with a meaning; returns where it ends."""
        text, character = self._text, self._text[at]
        if match := _BREAK.match(text, at):
            return self._add("break", at, match.end())
        if character in " \t":
            return at + 1
        if character == "\\":
            return at + (2 if _ESCAPE.match(text, at) else 1)
        if character == "&":
            entity = _ENTITY.match(text, at)
            return entity.end() if entity else at + 1
        if character == "`":
            return self._code(at)
        if character == "<":
            return self._tag(at)
        if character in "{$":
            kept = (_MACRO if character == "{" else _MATH).match(text, at)
            return self._add("kept", at, kept.end()) if kept else at + 1
        if character in "*_~":
            return self._delimiters(at)
        return self._bracket(at)

    def _add(self, kind: InlineKind, begin: int, end: int) -> int:
        self.inlines.append(Inline(begin, begin, end, end, kind))
        return end

    def _code(self, at: int) -> int:
        ticks = _TICKS.match(self._text, at)
        assert ticks
        length = len(ticks[0])
        if length not in self._lacking:
            for closing in _TICKS.finditer(self._text, ticks.end()):
                if len(closing[0]) == length:
                    return self._add("kept", at, closing.end())
            self._lacking.add(length)
        return ticks.end()

    def _tag(self, at: int) -> int:
        if autolink := _AUTOLINK.match(self._text, at):
            return self._add("kept", at, autolink.end())
        is_comment = self._text.startswith("<!--", at)
        if is_comment and not self._has_comments:
            return at + 1
        if tag := _TAG.match(self._text, at):
            return self._add("tag", at, tag.end())
        self._has_comments = self._has_comments and not is_comment
        return at + 1

    def _delimiters(self, at: int) -> int:
        match = _DELIMITERS.match(self._text, at)
        if match is None or match[0].startswith("~~~"):
            return match.end() if match else at + 1
        before, after = self._text[at - 1 : at], self._text[match.end() : match.end() + 1]
        opens, closes = flanks(before, after, self._text[at])
        run = _Run(at, match.end(), self._text[at], opens, closes, len(match[0]))
        self._runs.append(run)
        return match.end()

    def _bracket(self, at: int) -> int:
        text = self._text
        if text[at] == "]":
            return self._close(at)
        wiki = _WIKI_LINK.match(text, at)
        if wiki and normal_label(wiki[1]) not in self._labels:
            return self._add("kept", at, wiki.end())
        if text[at] == "!":
            if text[at + 1 : at + 2] != "[":
                return at + 1
        elif footnote := _FOOTNOTE.match(text, at):
            return self._add("object", at, footnote.end())
        is_image = text[at] == "!"
        self._brackets.append(_Bracket(at, is_image, len(self._runs), len(self.inlines)))
        return at + 1 + is_image

    def _close(self, at: int) -> int:
        if not self._brackets:
            return at + 1
        bracket = self._brackets.pop()
        link = self._link(bracket, at) if bracket.is_active else None
        if link is None:
            return at + 1
        self.emphasize(bracket.runs)
        if bracket.is_image:
            del self.inlines[bracket.inlines :]
        else:
            for other in self._brackets:
                other.is_active = other.is_active and other.is_image
        self.inlines.append(link)
        return link.end

    def _link(self, bracket: _Bracket, at: int) -> Inline | None:
        text = self._text
        first = bracket.begin + 1 + bracket.is_image
        kind: InlineKind = "image" if bracket.is_image else "link"
        if destination := _DESTINATION.match(text, at + 1):
            title = _TITLE.match(text, destination.end())
            end = _LINK_END.match(text, (title or destination).end())
            if end:
                span = title.span(title.lastindex or 0) if title else None
                return Inline(bracket.begin, first, at, end.end(), kind, span)
        reference = _REFERENCE.match(text, at + 1)
        own = text[first:at] if at - first < 999 else ""
        label = (reference[1] if reference else "") or own
        if normal_label(label) not in self._labels:
            return None
        end_at = reference.end() if reference else at + 1
        missing = "" if reference and reference[1] else own
        return Inline(bracket.begin, first, at, end_at, kind, None, missing)

    def emphasize(self, bottom: int) -> None:
        """Pair the delimiters behind an index, and remove them."""
        runs, self._runs[bottom:] = self._runs[bottom:], []
        order: list[_Run] = []
        searched: dict[tuple[str, bool, int], int] = {}
        """Before which offset there is nothing that such a run closes."""
        for run in runs:
            while run.closes and run.end > run.begin:
                form = (
                    run.character,
                    run.opens,
                    run.length % 3 if run.character != "~" else run.length,
                )
                opener = _opener(order, run, searched.get(form, 0))
                if opener is None:
                    searched[form] = run.begin
                    break
                size = 2 if min(opener.end - opener.begin, run.end - run.begin) > 1 else 1
                if run.character == "~":
                    size = run.length
                begin, end = opener.end - size, run.begin + size
                self.inlines.append(Inline(begin, opener.end, run.begin, end, "emphasis"))
                opener.end, run.begin = begin, end
                while order[-1] is not opener:
                    order.pop()
                if opener.end == opener.begin:
                    order.pop()
            if run.opens and run.end > run.begin:
                order.append(run)


def _opener(order: list[_Run], closer: _Run, since: int) -> _Run | None:
    """Returns the last run behind an offset that a run closes."""
    for run in reversed(order):
        if run.begin < since:
            break
        if run.character == closer.character and _fits(run, closer):
            return run
    return None


def _fits(opener: _Run, closer: _Run) -> bool:
    if closer.character == "~":
        return opener.length == closer.length
    if opener.closes or closer.opens:
        of_three = (opener.length + closer.length) % 3 == 0
        return not of_three or (opener.length % 3 == 0 and closer.length % 3 == 0)
    return True


def flanks(before: str, after: str, character: str) -> tuple[bool, bool]:
    """Returns whether delimiters can begin, and can end emphasis.

    Args:
        before: the character before them; empty at the ends of a text.
        after: the one after them.
        character: the delimiter.
    """
    is_left = after.strip() != "" and (not is_mark(after) or not before.strip() or is_mark(before))
    is_right = before.strip() != "" and (not is_mark(before) or not after.strip() or is_mark(after))
    if character == "_":
        return is_left and (not is_right or is_mark(before)), is_right and (
            not is_left or is_mark(after)
        )
    return is_left, is_right


def is_mark(character: str) -> bool:
    """Whether a character is punctuation."""
    return character != "" and unicodedata.category(character)[0] in "PS"


def _with_tags(inlines: list[Inline], text: str) -> list[Inline]:
    """Returns the elements, with two tags of HTML that belong together as one."""
    elements: list[Inline] = []
    opened: list[tuple[str, int, int]] = []
    """Name, index and end of the element around it for each open tag."""
    around: list[int] = []
    for inline in inlines:
        while around and around[-1] <= inline.begin:
            around.pop()
        enclosing = around[-1] if around else len(text)
        tag = _TAG.match(text, inline.begin) if inline.kind == "tag" else None
        while opened and opened[-1][2] <= inline.begin:
            opened.pop()
        if tag is None:
            elements.append(inline)
            if inline.kind in ("emphasis", "link"):
                around.append(inline.end)
            continue
        name = (tag[2] or "").lower()
        if name == "br":
            elements.append(inline._replace(kind="break"))
            continue
        if name and not tag[1] and not tag[3]:
            opened.append((name, len(elements), enclosing))
        elif tag[1] and opened and opened[-1][0] == name and opened[-1][2] == enclosing:
            _, index, _ = opened.pop()
            first = elements[index]
            kind: InlineKind = "kept" if name in _UNTRANSLATED else "tag"
            if kind == "kept":
                del elements[index + 1 :]
            elements[index] = Inline(first.begin, first.end, inline.begin, inline.end, kind)
            continue
        elements.append(inline._replace(kind="object"))
    return elements

"""What must not change when a page is translated, checked by HTML parsers other than ours."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import html5lib

_TEXT_ATTRIBUTES = ("abbr", "alt", "aria-", "content", "label", "placeholder", "title", "value")
"""Prefixes of the names of attributes that may contain text, and so may change."""
_ENTITY = re.compile(r"&#?\w+;")
_UNMARKED = re.compile(r"<(?:dd|li|p|td)(?=>)")
_MARKS = (' translate="no"', ' class="notranslate"')


@dataclass(frozen=True)
class Results:
    """A page and its translations.

    Attributes:
        source: the page.
        identity: translated into itself.
        changed: translated into other text.
        hostile: translated into text that looks like markup.
        marked: the page with elements that must not be translated; None: it has no candidates.
        marked_changed: `marked`, translated into other text.
    """

    source: str
    identity: str
    changed: str
    hostile: str
    marked: str | None
    marked_changed: str


Holds = bool | None
"""Whether an invariant holds; None: it does not apply to the page."""


def marked(page: str) -> str | None:
    """A page whose first two elements with text are marked as not to be translated."""
    parts = _UNMARKED.split(page, maxsplit=len(_MARKS))
    tags = _UNMARKED.findall(page)
    if not tags:
        return None
    written = [tag + mark + part for tag, mark, part in zip(tags, _MARKS, parts[1:], strict=False)]
    return parts[0] + "".join(written)


def judge(results: Results) -> dict[str, Holds]:
    """Whether each invariant holds for a page."""
    return {name: holds(results) for name, holds in INVARIANTS.items()}


class _Written(HTMLParser):
    """A page as it is written, read by the standard library's parser."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=False)
        self.tags: list[str] = []
        """Tags, without attributes that may be translated."""
        self.comments: list[str] = []
        self.declarations: list[str] = []
        self._parts: list[str | None] = []
        """Texts, and None for a tag."""
        self.feed(page)
        self.close()

    @property
    def spaces(self) -> list[tuple[bool, bool]]:
        """For each tag, whether white space precedes and follows it."""
        parts = [None, *self._parts, None]
        return [
            ((parts[at - 1] or "x")[-1].isspace(), (parts[at + 1] or "x")[0].isspace())
            for at in range(1, len(parts) - 1)
            if parts[at] is None
        ]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if not any(name.startswith(_TEXT_ATTRIBUTES) for name, _ in attrs):
            self.tags.append(self.get_starttag_text() or "")
        self._parts.append(None)

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")
        self._parts.append(None)

    def handle_data(self, data: str) -> None:
        self._parts.append(data)

    def handle_entityref(self, name: str) -> None:
        self._parts.append(name)

    def handle_charref(self, name: str) -> None:
        self._parts.append(name)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_decl(self, decl: str) -> None:
        self.declarations.append(decl)


def _elements(page: str) -> list[Any]:
    """The elements and comments of a page, as browsers parse it."""
    return list(html5lib.parse(page, namespaceHTMLElements=False).iter())


def _outside_code(element: Any) -> Iterator[Any]:
    """An element and its descendants, without those in code, which is copied unchanged."""
    yield element
    if element.tag not in ("code", "kbd", "samp", "var"):
        for child in element:
            yield from _outside_code(child)


def _named(element: Any) -> tuple[str, Any]:
    """An element without the parts that may be translated."""
    if not isinstance(element.tag, str):
        return "comment", element.text
    return element.tag, frozenset(
        (name, "" if str(name).startswith(_TEXT_ATTRIBUTES) else value)
        for name, value in element.attrib.items()
    )


def _relations(page: str) -> Counter[Any]:
    """Elements with their parents, ignoring order."""
    return Counter(
        (_named(parent), _named(child)) for parent in _elements(page) for child in parent
    )


def _same(part: Callable[[str], Any], of: Callable[[Results], str]) -> Callable[[Results], Holds]:
    """The invariant that something equals the source's, if the source has any of it."""

    def holds(results: Results) -> Holds:
        expected = part(results.source)
        return part(of(results)) == expected if expected else None

    return holds


def _attributes_change(results: Results) -> Holds:
    """Whether all alternative texts and titles are translated."""
    before, after = (
        [
            str(value)
            for element in _outside_code(html5lib.parse(page, namespaceHTMLElements=False))
            for name, value in element.attrib.items()
            if name in ("alt", "title", "placeholder")
        ]
        for page in (results.source, results.changed)
    )
    expected = [value.upper() for value in before]
    return after == expected if before != expected else None


def _marks_hold(results: Results) -> Holds:
    """Whether the elements that must not be translated kept their text."""
    if results.marked is None:
        return None
    before, after = (
        [
            "".join(element.itertext())
            for element in _elements(page)
            if element.get("translate") == "no" or element.get("class") == "notranslate"
        ]
        for page in (results.marked, results.marked_changed)
    )
    return before == after


def _changed(results: Results) -> str:
    return results.changed


INVARIANTS: Mapping[str, Callable[[Results], Holds]] = {
    "translated into itself, the page is the same": lambda one: one.identity == one.source,
    "tags are written as they were": _same(lambda page: _Written(page).tags, _changed),
    "the tree is the same": _same(
        lambda page: [_named(element) for element in _elements(page)], _changed
    ),
    "each element once, in its parent": _same(_relations, _changed),
    "no element of text that looks like markup": _same(_relations, lambda one: one.hostile),
    "white space on both sides of tags": _same(lambda page: _Written(page).spaces, _changed),
    "alt, title and placeholder are translated": _attributes_change,
    "translate=no and notranslate": _marks_hold,
    "comments": _same(lambda page: _Written(page).comments, _changed),
    "document type": _same(lambda page: _Written(page).declarations, _changed),
    "entities as they were written": _same(_ENTITY.findall, lambda one: one.identity),
}
"""Invariants by description."""


def shares(judged: Sequence[Mapping[str, Holds]]) -> dict[str, tuple[int, int]]:
    """For each invariant, the number of pages for which it holds, and of those it applies to."""
    return {
        name: (
            sum(one[name] is True for one in judged),
            sum(one[name] is not None for one in judged),
        )
        for name in INVARIANTS
    }

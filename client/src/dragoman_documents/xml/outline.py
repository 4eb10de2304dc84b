"""Decides which elements split texts: an element in text is inline, all others are blocks.

Whether an element has its own text is known only at its end, so elements are buffered until then,
within limits.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from dragoman_documents.xml.xml_profiles import Role
from dragoman_documents.xml.xml_tokens import XmlToken

UNDECIDED_BYTES = 1 << 16
"""An element longer than this and without its own text so far is a block."""
MOST_BLOCK_BYTES = 1 << 20
"""An element longer than this is a block, even if it has its own text."""


class Item(NamedTuple):
    """A token with its properties.

    Attributes:
        token: the token.
        role: role of the element that it begins or ends, or is in.
        is_translated: whether its text is translated.
        preserves: whether its spaces are significant.
        texts: names of the attributes of a start tag that are texts to translate.
    """

    token: XmlToken
    role: Role
    is_translated: bool = True
    preserves: bool = False
    texts: frozenset[str] = frozenset()

    @property
    def has_text(self) -> bool:
        """Whether it counts as own text of the element around it."""
        kind, text = self.token.kind, self.token.text
        return kind == "entity" or (kind in ("text", "cdata") and bool(text.strip()))


class _Element:
    """An undecided element, with the number of its first item."""

    def __init__(self, begin: int, role: Role, has_tag: bool = True) -> None:
        self.begin, self.role, self.has_tag = begin, role, has_tag
        self.has_text = False


class Outline:
    """Replaces the role `auto` of elements."""

    def __init__(self, *, is_fragment: bool) -> None:
        """Start before the root element, or in a fragment."""
        self._items: list[Item] = []
        self._dropped = 0
        """Number of items before these."""
        self._bytes = 0
        self._open: deque[_Element] = deque()
        """Open, undecided elements, outermost first."""
        if is_fragment:
            self._open.append(_Element(0, "block", has_tag=False))

    def feed(self, item: Item) -> list[Item]:
        """Add an item and return the items that are decided now."""
        kind = item.token.kind
        if not self._open and kind != "start":
            return [item]
        self._items.append(item)
        self._bytes += len(item.token.raw)
        if kind == "start":
            number = self._dropped + len(self._items) - 1
            self._open.append(_Element(number, item.role))
        elif kind == "end":
            closed = self._open.pop()
            if not self._open:
                return self._taken(len(self._items), False)
            self._open[-1].has_text |= closed.has_text and closed.role in ("inline", "keep")
        else:
            self._open[-1].has_text |= item.has_text
        return self._too_large()

    def close(self) -> list[Item]:
        """Returns the remaining items."""
        has_text = bool(self._open) and self._open[0].has_text
        return self._taken(len(self._items), has_text)

    def _too_large(self) -> list[Item]:
        """Decide outer elements that are too long, and return their items."""
        decided: list[Item] = []
        while self._open and self._bytes > (
            MOST_BLOCK_BYTES if self._open[0].has_text else UNDECIDED_BYTES
        ):
            outer = self._open.popleft()
            if outer.has_tag:
                tag = self._items[0]
                decided.append(tag._replace(role="block" if tag.role == "auto" else tag.role))
                self._drop(1)
            end = self._open[0].begin - self._dropped if self._open else len(self._items)
            decided += self._taken(end, False)
        return decided

    def _drop(self, count: int) -> None:
        self._bytes -= sum(len(item.token.raw) for item in self._items[:count])
        del self._items[:count]
        self._dropped += count

    def _taken(self, end: int, has_text: bool) -> list[Item]:
        """Remove and return the items up to `end`, decided."""
        decided = _decided(self._items[:end], has_text)
        self._drop(end)
        return decided


def _decided(items: list[Item], has_text: bool) -> list[Item]:
    with_text = _with_text(items)
    inlines = [has_text]
    """For each open element, whether the elements in it are inline."""
    decided = []
    for index, item in enumerate(items):
        role = item.role
        if item.token.kind == "start":
            if role == "auto":
                role = "inline" if inlines[-1] else "block"
            inlines.append(role != "block" or index in with_text)
        elif item.token.kind == "end":
            inlines.pop()
        decided.append(item._replace(role=role))
    return decided


def _with_text(items: list[Item]) -> set[int]:
    """Returns the indices of the start tags of elements with their own text."""
    with_text: set[int] = set()
    entered = [-1]
    for index, item in enumerate(items):
        if item.token.kind == "start":
            entered.append(index)
        elif item.token.kind == "end":
            closed = entered.pop()
            if closed in with_text and items[closed].role in ("inline", "keep"):
                with_text.add(entered[-1])
        elif item.has_text:
            with_text.add(entered[-1])
    return with_text

"""Finds which elements part texts: an element in text is inline, all others are blocks.

Whether an element has text of its own is known at its end, so elements wait for it, within bounds.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from dragoman_client.markup.xml_profiles import Role
from dragoman_client.markup.xml_tokens import XmlToken

UNDECIDED_BYTES = 1 << 16
"""An element without text of its own so far, and longer than this, is a block."""
MOST_BLOCK_BYTES = 1 << 20
"""An element that is longer is a block, even if it has text of its own."""


class Item(NamedTuple):
    """A token, with what is known of it.

    Attributes:
        token: of a document.
        role: of the element that it begins or ends, or stands in.
        is_translated: whether its text is.
        preserves: whether its spaces count.
        texts: names of the attributes, of a start tag, that are texts to translate.
    """

    token: XmlToken
    role: Role
    is_translated: bool = True
    preserves: bool = False
    texts: frozenset[str] = frozenset()

    @property
    def has_text(self) -> bool:
        """Whether it makes the element around it one with text."""
        kind, text = self.token.kind, self.token.text
        return kind == "entity" or (kind in ("text", "cdata") and bool(text.strip()))


class _Element:
    """An element that is not decided, and the number of the item that it begins with."""

    def __init__(self, begin: int, role: Role, has_tag: bool = True) -> None:
        self.begin, self.role, self.has_tag = begin, role, has_tag
        self.has_text = False


class Outline:
    """Gives elements of the role `auto` another one."""

    def __init__(self, *, is_fragment: bool) -> None:
        """Begin before the root element, or in a fragment."""
        self._items: list[Item] = []
        self._dropped = 0
        """How many items came before these."""
        self._bytes = 0
        self._open: deque[_Element] = deque()
        """Elements that are open and not decided, outermost first."""
        if is_fragment:
            self._open.append(_Element(0, "block", has_tag=False))

    def feed(self, item: Item) -> list[Item]:
        """Items that are decided now."""
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
        """What is left."""
        has_text = bool(self._open) and self._open[0].has_text
        return self._taken(len(self._items), has_text)

    def _too_large(self) -> list[Item]:
        """Items of outer elements that are decided because they are long."""
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
        """The items up to one, in an element with or without text, decided."""
        decided = _decided(self._items[:end], has_text)
        self._drop(end)
        return decided


def _decided(items: list[Item], has_text: bool) -> list[Item]:
    with_text = _with_text(items)
    inlines = [has_text]
    """Of each element around an item, whether the elements in it are inline."""
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
    """Indices of the start tags of elements with text of their own."""
    found: set[int] = set()
    entered = [-1]
    for index, item in enumerate(items):
        if item.token.kind == "start":
            entered.append(index)
        elif item.token.kind == "end":
            closed = entered.pop()
            if closed in found and items[closed].role in ("inline", "keep"):
                found.add(entered[-1])
        elif item.has_text:
            found.add(entered[-1])
    return found

"""Rules of ITS 2.0 in a document: what is translated in it, and which elements are part of text.

Source: https://www.w3.org/TR/its20/
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dragoman_client.markup.xml_tokens import XmlToken

NAMESPACE = "http://www.w3.org/2005/11/its"
_NAME = r"(?:[\w.-]+:)?([\w.-]+|\*)"
_ELEMENT = re.compile(rf"{_NAME}(?:\[@([\w.:-]+)(?:\s*=\s*(?:'([^']*)'|\"([^\"]*)\"))?\])?")
_SELECTOR = re.compile(rf"(//?)({_ELEMENT.pattern}(?:/{_ELEMENT.pattern})*)(/@{_NAME})?")

_log = logging.getLogger(__name__)


class _Element(NamedTuple):
    """An element on a selector's path.

    Attributes:
        name: without its prefix; "*" is any.
        attribute: that it has; None: any or none.
        value: of that attribute; None: any.
    """

    name: str
    attribute: str | None
    value: str | None

    def matches(self, element: XmlToken) -> bool:
        """Whether an element is such a one."""
        if self.name not in ("*", local_name(element.name)):
            return False
        if self.attribute is None:
            return True
        found = element.attributes.get(self.attribute)
        return found is not None and self.value in (None, found)


class _Rule(NamedTuple):
    """What holds for what a selector selects.

    Attributes:
        kind: name of the rule's element.
        is_from_root: whether the path begins at the root, or anywhere.
        elements: of the path, down to the selected one.
        attribute: of that, if not the element is selected; "*" is any.
        value: what holds.
    """

    kind: str
    is_from_root: bool
    elements: tuple[_Element, ...]
    attribute: str | None
    value: str

    def selects(self, path: Sequence[XmlToken]) -> bool:
        """Whether the last element of a path is, or has, what the rule is for."""
        last = path[-len(self.elements) :]
        if len(last) < len(self.elements) or (self.is_from_root and len(last) < len(path)):
            return False
        return all(one.matches(token) for one, token in zip(self.elements, last, strict=True))


_VALUES: Mapping[str, tuple[str, frozenset[str]]] = {
    "translateRule": ("translate", frozenset({"yes", "no"})),
    "withinTextRule": ("withinText", frozenset({"yes", "no", "nested"})),
}
"""The attribute of a rule that says what holds, and what it may be."""


class ItsRules:
    """The rules of a document, as far as they are read."""

    def __init__(self) -> None:
        """Begin with none."""
        self._rules: list[_Rule] = []

    def read(self, token: XmlToken) -> None:
        """Take a rule from its element, or warn of one that cannot be followed."""
        kind, attributes = local_name(token.name), token.attributes
        if kind == "rules":
            if outside := attributes.get("xlink:href"):
                _log.warning("ITS rules in another file, %r, are not read: copy them here", outside)
            return
        if kind not in _VALUES:
            return
        name, values = _VALUES[kind]
        selector, value = attributes.get("selector", ""), attributes.get(name, "")
        rules = [_rule(kind, one, value) for one in selector.split("|")]
        if value not in values or None in rules:
            what = f"{name}={value!r}" if value not in values else f"selector {selector!r}"
            _log.warning("an ITS %s is ignored: its %s is not supported", kind, what)
            return
        self._rules += filter(None, rules)

    def of_element(self, kind: str, path: Sequence[XmlToken]) -> str | None:
        """What the last rule of a kind for an element says; None: there is none.

        Args:
            kind: name of the rule's element.
            path: the elements from the root down to the one.
        """
        return next((one.value for one in self._for(kind, path) if not one.attribute), None)

    def translated_attributes(self, path: Sequence[XmlToken]) -> dict[str, bool]:
        """Attributes of an element, by name, of which rules say whether they are translated."""
        found: dict[str, bool] = {}
        for rule in self._for("translateRule", path):
            names = path[-1].attributes if rule.attribute == "*" else (rule.attribute,)
            for name in filter(None, names):
                found.setdefault(name, rule.value == "yes")
        return found

    def _for(self, kind: str, path: Sequence[XmlToken]) -> Iterator[_Rule]:
        """Rules of a kind for an element or its attributes, the last first."""
        for rule in reversed(self._rules):
            if rule.kind == kind and rule.selects(path):
                yield rule


def local_name(name: str) -> str:
    """A name without its prefix."""
    return name.rpartition(":")[2]


def _rule(kind: str, selector: str, value: str) -> _Rule | None:
    """A rule by one path of its selector; None: it is not understood."""
    selector = re.sub("^//@", "//*/@", selector.strip())
    found = _SELECTOR.fullmatch(selector)
    if found is None:
        return None
    elements = tuple(
        _Element(one[1], one[2], one[4] if one[3] is None else one[3])
        for one in _ELEMENT.finditer(found[2])
    )
    attribute = selector.rpartition("@")[2] if found[found.re.groups] else None
    return _Rule(kind, found[1] == "/", elements, attribute, value)

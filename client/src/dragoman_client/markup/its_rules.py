"""ITS 2.0 rules in a document: what to translate, and which elements are inline.

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
    """An element in a selector's path.

    Attributes:
        name: name without its prefix; "*" is any.
        attribute: an attribute that it must have; None: no condition.
        value: required value of that attribute; None: any.
    """

    name: str
    attribute: str | None
    value: str | None

    def matches(self, element: XmlToken) -> bool:
        """Whether an element matches."""
        if self.name not in ("*", local_name(element.name)):
            return False
        if self.attribute is None:
            return True
        found = element.attributes.get(self.attribute)
        return found is not None and self.value in (None, found)


class _Rule(NamedTuple):
    """A value for the elements or attributes that a selector selects.

    Attributes:
        kind: name of the rule's element.
        is_from_root: whether the path begins at the root; else anywhere.
        elements: elements of the path, down to the selected one.
        attribute: the selected attribute of the last element; None: the element itself is
            selected; "*" is any.
        value: the value of the rule.
    """

    kind: str
    is_from_root: bool
    elements: tuple[_Element, ...]
    attribute: str | None
    value: str

    def selects(self, path: Sequence[XmlToken]) -> bool:
        """Whether the rule selects the last element of a path, or attributes of it."""
        last = path[-len(self.elements) :]
        if len(last) < len(self.elements) or (self.is_from_root and len(last) < len(path)):
            return False
        return all(one.matches(token) for one, token in zip(self.elements, last, strict=True))


_VALUES: Mapping[str, tuple[str, frozenset[str]]] = {
    "translateRule": ("translate", frozenset({"yes", "no"})),
    "withinTextRule": ("withinText", frozenset({"yes", "no", "nested"})),
}
"""By kind of rule: the attribute with its value, and the allowed values."""


class ItsRules:
    """The rules of a document that have been read so far."""

    def __init__(self) -> None:
        """Start without rules."""
        self._rules: list[_Rule] = []

    def read(self, token: XmlToken) -> None:
        """Add the rule of an element, or warn if it is not supported."""
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
        """Returns the value of the last rule of a kind for an element, or None.

        Args:
            kind: name of the rule's element.
            path: the elements from the root to this one.
        """
        return next((one.value for one in self._for(kind, path) if not one.attribute), None)

    def translated_attributes(self, path: Sequence[XmlToken]) -> dict[str, bool]:
        """Returns, by name, whether attributes of an element with rules are translated."""
        found: dict[str, bool] = {}
        for rule in self._for("translateRule", path):
            names = path[-1].attributes if rule.attribute == "*" else (rule.attribute,)
            for name in filter(None, names):
                found.setdefault(name, rule.value == "yes")
        return found

    def _for(self, kind: str, path: Sequence[XmlToken]) -> Iterator[_Rule]:
        """Yield the rules of a kind for an element or its attributes, the last one first."""
        for rule in reversed(self._rules):
            if rule.kind == kind and rule.selects(path):
                yield rule


def local_name(name: str) -> str:
    """Returns a name without its prefix."""
    return name.rpartition(":")[2]


def _rule(kind: str, selector: str, value: str) -> _Rule | None:
    """Makes a rule from one path of its selector; None: the path is not supported."""
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

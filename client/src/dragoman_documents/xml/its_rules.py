"""ITS 2.0 rules in a document: what to translate, and which elements are inline.

Source: https://www.w3.org/TR/its20/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from reprlib import repr as brief
from typing import NamedTuple

from dragoman_documents.xml.xml_tokens import XmlToken

NAMESPACE = "http://www.w3.org/2005/11/its"
_NAME = r"(?:[\w.-]+:)?([\w.-]+|\*)"
_ELEMENT = re.compile(rf"{_NAME}(?:\[@([\w.:-]+)(?:\s*=\s*(?:'([^']*)'|\"([^\"]*)\"))?\])?")
_SELECTOR = re.compile(rf"(//?)({_ELEMENT.pattern}(?:/{_ELEMENT.pattern})*+)(/@{_NAME})?")
_MOST_PATHS = 256
_MOST_PATH_CHARACTERS = 500
_MOST_WARNINGS = 20


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
        value = element.attributes.get(self.attribute)
        return value is not None and self.value in (None, value)


class _Path(NamedTuple):
    """A path of a selector.

    Attributes:
        is_from_root: whether the path begins at the root; else anywhere.
        elements: elements of the path, down to the selected one.
        attribute: the selected attribute of the last element; None: the element itself is
            selected; "*" is any.
    """

    is_from_root: bool
    elements: tuple[_Element, ...]
    attribute: str | None


@dataclass
class _Step:
    """An element of paths, which are read from their end: a node of a tree.

    Attributes:
        before: the steps before it, by the name and the condition of their element.
        rules: number and value of the last rule that ends here, by its kind, `is_from_root` and
            `attribute`.
    """

    before: dict[str, dict[_Element, _Step]] = field(default_factory=dict)
    rules: dict[tuple[str, bool, str | None], tuple[int, str]] = field(default_factory=dict)

    def matching(self, element: XmlToken) -> Iterator[_Step]:
        """Yield the steps before this one that an element matches."""
        attributes = element.attributes
        for name in (local_name(element.name), "*"):
            steps = self.before.get(name, {})
            if len(steps) <= 2 * len(attributes):
                yield from (step for condition, step in steps.items() if condition.matches(element))
                continue
            conditions = [_Element(name, None, None)]
            for attribute, value in attributes.items():
                conditions += _Element(name, attribute, None), _Element(name, attribute, value)
            yield from (steps[condition] for condition in conditions if condition in steps)


_VALUES: Mapping[str, tuple[str, frozenset[str]]] = {
    "translateRule": ("translate", frozenset({"yes", "no"})),
    "withinTextRule": ("withinText", frozenset({"yes", "no", "nested"})),
}
"""By kind of rule: the attribute with its value, and the allowed values."""


class ItsRules:
    """The rules of a document that have been read so far.

    Attributes:
        warnings: names of unsupported rules; they quote the document.
    """

    def __init__(self) -> None:
        """Start without rules."""
        self.warnings: list[str] = []
        self._steps = _Step()
        self._paths = 0
        self._selected: tuple[XmlToken, dict[tuple[str, str | None], str]] | None = None

    def read(self, token: XmlToken) -> None:
        """Add the rule of an element, or a warning if it is not supported.

        Raises:
            ValueError: the rules have too many paths.
        """
        kind, attributes = local_name(token.name), token.attributes
        if kind == "rules":
            if outside := attributes.get("xlink:href"):
                self._warn(f"ITS rules in another file, {brief(outside)}, are not read: copy them")
            return
        if kind not in _VALUES:
            return
        name, values = _VALUES[kind]
        selector, value = attributes.get("selector", ""), attributes.get(name, "")
        self._paths += 1 + selector.count("|")
        if self._paths > _MOST_PATHS:
            raise ValueError(f"its ITS rules have more than {_MOST_PATHS} paths")
        paths = [_path(part) for part in selector.split("|")]
        if value not in values or None in paths:
            what = (
                f"{name}={brief(value)}" if value not in values else f"selector {brief(selector)}"
            )
            self._warn(f"an ITS {kind} is ignored: its {what} is not supported")
            return
        for path in filter(None, paths):
            self._add(kind, path, value)

    def of_element(self, kind: str, path: Sequence[XmlToken]) -> str | None:
        """Returns the value of the last rule of a kind for an element, or None.

        Args:
            kind: name of the rule's element.
            path: the elements from the root to this one.
        """
        return self._for(path).get((kind, None))

    def translated_attributes(self, path: Sequence[XmlToken]) -> dict[str, bool]:
        """Returns, by name, whether attributes of an element with rules are translated."""
        translated: dict[str, bool] = {}
        for (kind, attribute), value in self._for(path).items():
            if kind == "translateRule" and attribute is not None:
                names = path[-1].attributes if attribute == "*" else (attribute,)
                for name in names:
                    translated.setdefault(name, value == "yes")
        return translated

    def _add(self, kind: str, path: _Path, value: str) -> None:
        step = self._steps
        for element in reversed(path.elements):
            step = step.before.setdefault(element.name, {}).setdefault(element, _Step())
        step.rules[kind, path.is_from_root, path.attribute] = self._paths, value
        self._selected = None

    def _for(self, path: Sequence[XmlToken]) -> dict[tuple[str, str | None], str]:
        """Returns values by kind and attribute for an element, those of later rules first."""
        if not self._steps.before:
            return {}
        if self._selected is None or self._selected[0] is not path[-1]:
            self._selected = path[-1], self._values(path)
        return self._selected[1]

    def _values(self, path: Sequence[XmlToken]) -> dict[tuple[str, str | None], str]:
        rules: list[tuple[int, tuple[str, str | None], str]] = []
        steps = [self._steps]
        for index in range(len(path) - 1, -1, -1):
            steps = [before for step in steps for before in step.matching(path[index])]
            if not steps:
                break
            for step in steps:
                for (kind, is_from_root, attribute), (number, value) in step.rules.items():
                    if not is_from_root or index == 0:
                        rules.append((number, (kind, attribute), value))
        values: dict[tuple[str, str | None], str] = {}
        for _, selected, value in sorted(rules, key=lambda rule: -rule[0]):
            values.setdefault(selected, value)
        return values

    def _warn(self, message: str) -> None:
        if len(self.warnings) < _MOST_WARNINGS:
            self.warnings.append(message)


def local_name(name: str) -> str:
    """Returns a name without its prefix."""
    return name.rpartition(":")[2]


def _path(selector: str) -> _Path | None:
    """Reads one path of a selector; None: it is not supported."""
    selector = re.sub("^//@", "//*/@", selector.strip())
    match = _SELECTOR.fullmatch(selector)
    if match is None or len(selector) > _MOST_PATH_CHARACTERS:
        return None
    elements = tuple(
        _Element(element[1], element[2], element[4] if element[3] is None else element[3])
        for element in _ELEMENT.finditer(match[2])
    )
    attribute = selector.rpartition("@")[2] if match[match.re.groups] else None
    return _Path(match[1] == "/", elements, attribute)

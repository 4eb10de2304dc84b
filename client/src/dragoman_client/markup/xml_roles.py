"""The role of each token of a document: by its profile, its attributes and the ITS rules in it."""

from __future__ import annotations

import logging
import re
from typing import NamedTuple

from dragoman_client.markup.outline import Item
from dragoman_client.markup.xml_profiles import Role, XmlProfile
from dragoman_client.markup.xml_tokens import XmlToken

_ITS = "http://www.w3.org/2005/11/its"
_BY_NAME = re.compile(r"//(?:[\w.-]+:)?([\w.-]+)")
_WITHIN_TEXT: dict[str, Role] = {"yes": "inline", "no": "block", "nested": "nested"}
_OPAQUE: tuple[Role, ...] = ("keep", "opaque", "skip")
"""Roles that all elements within have too."""

_log = logging.getLogger(__name__)


class _Context(NamedTuple):
    """What holds in an element."""

    role: Role
    is_translated: bool
    preserves: bool
    is_text: bool
    """Whether it is, or is in, one of the role `text`."""


class XmlRoles:
    """Follows the elements of a document."""

    def __init__(self, profile: XmlProfile) -> None:
        """Begin outside of all elements."""
        self._profile = profile
        self._contexts = [_Context("block", True, False, False)]
        self._its = "its:"
        """The prefix of ITS, with its colon."""
        self._rules: dict[str, str] = {}
        """What the document's rules say of elements: whether they are translated, by name."""
        self._within_text: dict[str, Role] = {}

    def item(self, token: XmlToken) -> Item:
        """A token with what is known of it."""
        around = self._contexts[-1]
        if token.kind == "end":
            self._contexts.pop()
            return Item(token, around.role, around.is_translated, around.preserves)
        if token.kind != "start":
            has_place = around.is_text or not self._profile.is_by_element
            is_translated = around.is_translated and has_place and around.role not in _OPAQUE
            return Item(token, around.role, is_translated, around.preserves)
        context = self._context(token, around)
        self._contexts.append(context)
        return Item(token, context.role, context.is_translated, context.preserves)

    def _context(self, token: XmlToken, around: _Context) -> _Context:
        name = token.name.rpartition(":")[2]
        self._read_its(token, name)
        if around.role in _OPAQUE:
            return around
        role = self._role(token, name, around.is_text)
        preserves = around.preserves or name in self._profile.preserving
        if space := token.attributes.get("xml:space"):
            preserves = space == "preserve"
        is_text = around.is_text or role == "text"
        return _Context(role, self._is_translated(token, name, around), preserves, is_text)

    def _role(self, token: XmlToken, name: str, is_in_text: bool) -> Role:
        profile = self._profile
        if within := token.attributes.get(f"{self._its}withinText"):
            return _WITHIN_TEXT.get(within, "block")
        for rule in profile.rules:
            value = token.attributes.get(rule.attribute)
            if (
                rule.name in ("*", name)
                and value is not None
                and (rule.value is None or rule.value.fullmatch(value))
            ):
                return rule.role
        role = (
            profile.roles.get(token.name) or profile.roles.get(name) or self._within_text.get(name)
        )
        if is_in_text and role in ("block", "text", None):
            return "inline"
        return role or profile.otherwise

    def _is_translated(self, token: XmlToken, name: str, around: _Context) -> bool:
        attributes = token.attributes
        classes = attributes.get("class", "").split()
        if self._profile.untranslated_class in classes:
            return False
        told = attributes.get(f"{self._its}translate") or attributes.get("translate")
        told = told if told in ("yes", "no") else self._rules.get(name)
        return around.is_translated if told is None else told == "yes"

    def _read_its(self, token: XmlToken, name: str) -> None:
        for attribute, value in token.attributes.items():
            if value == _ITS and attribute.startswith("xmlns:"):
                self._its = f"{attribute[6:]}:"
        if not name.endswith("Rule") or not token.name.startswith(self._its):
            return
        selector = token.attributes.get("selector", "")
        names = [_BY_NAME.fullmatch(one.strip()) for one in selector.split("|")]
        for found in names:
            if found is None:
                _log.warning("ITS rule for %r is ignored: only //NAME is understood", selector)
            elif name == "translateRule":
                self._rules[found[1]] = token.attributes.get("translate", "yes")
            elif name == "withinTextRule":
                within = token.attributes.get("withinText", "no")
                self._within_text[found[1]] = _WITHIN_TEXT.get(within, "block")

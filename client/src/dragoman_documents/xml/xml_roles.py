"""Gives each token of a document its role, by profile, attributes and ITS rules."""

from __future__ import annotations

from typing import NamedTuple

from dragoman_documents.core.languages import DocumentLanguages
from dragoman_documents.xml.its_rules import NAMESPACE, ItsRules, local_name
from dragoman_documents.xml.outline import Item
from dragoman_documents.xml.xml_profiles import LINE_BREAKS, Role, XmlProfile
from dragoman_documents.xml.xml_tokens import XmlToken

_WITHIN_TEXT: dict[str, Role] = {"yes": "inline", "no": "block", "nested": "nested"}
_OPAQUE: tuple[Role, ...] = ("keep", "opaque", "hidden", "break", "skip")
"""Roles that all inner elements inherit."""


class _Context(NamedTuple):
    """Properties of an element.

    Attributes:
        role: role of the element.
        may_translate: whether `translate`, of the element or inherited, allows translation.
        is_foreign: whether it is in another language than the document.
        preserves: whether white space is significant.
        is_text: whether it is, or is in, an element with the role `text`.
    """

    role: Role = "block"
    may_translate: bool = True
    is_foreign: bool = False
    preserves: bool = False
    is_text: bool = False

    @property
    def is_translated(self) -> bool:
        """Whether its text is translated."""
        return self.may_translate and not self.is_foreign


class XmlRoles:
    """Tracks the elements of a document."""

    def __init__(self, profile: XmlProfile, languages: DocumentLanguages) -> None:
        """Start outside all elements.

        Args:
            profile: profile of the document.
            languages: languages of the document.
        """
        self._profile, self._languages = profile, languages
        self._contexts = [_Context(preserves=profile.preserves)]
        self._path: list[XmlToken] = []
        self._its = "its:"
        """The prefix of ITS, with its colon."""
        self._rules = ItsRules()

    @property
    def warnings(self) -> list[str]:
        """Warnings about ITS rules."""
        return self._rules.warnings

    def item(self, token: XmlToken) -> Item:
        """Returns a token with its properties."""
        around = self._contexts[-1]
        if token.kind == "end":
            self._contexts.pop()
            self._path.pop()
            return Item(token, around.role, around.is_translated, around.preserves)
        if token.kind != "start":
            has_place = around.is_text or not self._profile.is_by_element
            is_translated = around.is_translated and has_place and around.role not in _OPAQUE
            return Item(token, around.role, is_translated, around.preserves)
        self._path.append(token)
        context = self._context(token, around)
        self._contexts.append(context)
        has_texts = context.is_translated and around.role not in _OPAQUE
        texts = self._attributes(token) if has_texts else frozenset()
        return Item(token, context.role, context.is_translated, context.preserves, texts)

    def _context(self, token: XmlToken, around: _Context) -> _Context:
        name = local_name(token.name)
        self._read_its(token)
        if around.role in _OPAQUE:
            return around
        role = self._role(token, name, around.is_text)
        preserves = around.preserves or name in self._profile.preserving
        if space := token.attributes.get("xml:space"):
            preserves = space == "preserve"
        is_text = around.is_text or role == "text"
        may_translate = self._may_translate(token, around)
        return _Context(role, may_translate, self._is_foreign(token, around), preserves, is_text)

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
        within = self._rules.of_element("withinTextRule", self._path)
        role = _WITHIN_TEXT.get(within or "") or (
            profile.roles.get(token.name) or profile.roles.get(name)
        )
        if role is None and name.lower() in LINE_BREAKS and _is_empty(token):
            return "break"
        if is_in_text and role in ("block", "text", None):
            return "inline"
        return role or profile.otherwise

    def _may_translate(self, token: XmlToken, around: _Context) -> bool:
        attributes = token.attributes
        classes = attributes.get("class", "").split()
        if self._profile.untranslated_class in classes:
            return False
        declared = attributes.get(f"{self._its}translate") or attributes.get("translate")
        if declared not in ("yes", "no"):
            declared = self._rules.of_element("translateRule", self._path)
        return around.may_translate if declared is None else declared == "yes"

    def _is_foreign(self, token: XmlToken, around: _Context) -> bool:
        is_foreign = self._languages.is_foreign(self._profile.language_of(token.attributes))
        return around.is_foreign if is_foreign is None else is_foreign

    def _attributes(self, token: XmlToken) -> frozenset[str]:
        """Returns the names of an element's attributes that are texts."""
        known = self._profile.attributes
        names = known.get("*", frozenset()) | known.get(local_name(token.name), frozenset())
        ruled = self._rules.translated_attributes(self._path)
        named = frozenset(name for name, is_translated in ruled.items() if is_translated)
        return ((names | named) - (ruled.keys() - named)) & token.attributes.keys()

    def _read_its(self, token: XmlToken) -> None:
        for attribute, value in token.attributes.items():
            if value == NAMESPACE and attribute.startswith("xmlns:"):
                self._its = f"{attribute[6:]}:"
        if token.name.startswith(self._its):
            self._rules.read(token)


def _is_empty(start: XmlToken) -> bool:
    """Whether a start tag is that of an empty element, in any encoding."""
    return start.raw.replace(b"\0", b"").endswith(b"/>")

"""Tables of HTML: which elements are blocks or inline, and which attributes are text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from dragoman_documents.xml.xml_profiles import XHTML


def names(written: str) -> frozenset[str]:
    """Splits a list of element names separated by spaces."""
    return frozenset(written.split())


VOID: Final = frozenset(
    (
        *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param"),
        *("source", "track", "wbr"),
    )
)
"""Elements without an end tag."""
IN_HEAD: Final = names(
    "base basefont bgsound head html link meta noframes noscript script style template title"
)
"""Elements that do not end a page's head."""
SKIPPED: Final = frozenset(("noembed", "noframes", "plaintext", "xmp"))
"""Elements whose content is not markup, unlike in XHTML."""
NOT_IN_FOREIGN: Final = names(
    "b big blockquote body br center code dd div dl dt em embed font h1 h2 h3 h4 h5 "
    "h6 head hr i img li listing menu meta nobr ol p pre ruby s small span strong "
    "strike sub sup table tt u ul var"
)
"""Elements that close SVG or MathML around them."""
TITLES: Final = frozenset(("title", "h1", "h2", "h3", "h4", "h5", "h6"))
"""Elements whose texts are titles."""
LINKS: Final = frozenset(("a", "button", "label"))
"""Elements that often stand side by side, each with a text of its own."""
_BUTTONS = frozenset(("button", "reset"))
"""Without `submit`, because its value is sent."""
_DESCRIPTIONS = frozenset(
    (
        "description",
        "keywords",
        "og:title",
        "og:description",
        "twitter:title",
        "twitter:description",
    )
)
_LABELS = frozenset(("desc", "text", "title"))
_OF_LINES = frozenset(("dy", "sodipodi:role", "x", "y"))
"""Attributes of a `tspan` at a position of its own."""
_ICONS = frozenset(("mat-icon", "md-icon", "v-icon"))
_ICON_CLASSES = ("material-icons", "material-symbols")
_TAG_NAME = re.compile(r"<[^ \t\n\f\r/>]*")
_ATTRIBUTE = re.compile(
    r"""[ \t\n\f\r/]*(=?[^ \t\n\f\r/>=]*)"""
    r"""(?:[ \t\n\f\r]*=[ \t\n\f\r]*(?:"([^"]*)"|'([^']*)'|([^ \t\n\f\r>]*)))?"""
)


def role(name: str) -> str:
    """Returns the role of an element: `block`, `inline`, `keep`, `opaque` or `skip`."""
    return "skip" if name in SKIPPED else XHTML.roles.get(name, XHTML.otherwise)


def is_unknown(name: str) -> bool:
    """Whether HTML has no element with this name; browsers show these inline."""
    return name not in XHTML.roles and name not in VOID and name not in SKIPPED


def is_label(name: str, others: Mapping[str, str]) -> bool:
    """Whether an element of an SVG picture is a text of its own, as a line of a longer one is."""
    return name in _LABELS or (name == "tspan" and not _OF_LINES.isdisjoint(others))


def is_icon(name: str, others: Mapping[str, str]) -> bool:
    """Whether an element's text is the name of a picture, which a font shows in its place."""
    classes = others.get("class", "").split()
    return name in _ICONS or any(word.startswith(_ICON_CLASSES) for word in classes)


def attributes(tag: str) -> dict[str, tuple[str, int, int, str]]:
    """Returns the attributes of a tag: value, begin and end of it, and its quote, if any."""
    by_name: dict[str, tuple[str, int, int, str]] = {}
    begin = _TAG_NAME.match(tag)
    position = begin.end() if begin else len(tag)
    while (match := _ATTRIBUTE.match(tag, position)) and match.end() > position:
        position = match.end()
        group = next((number for number in (2, 3, 4) if match[number] is not None), None)
        value = ("", position, position, "")
        if group is not None:
            value = match[group], *match.span(group), {2: '"', 3: "'", 4: ""}[group]
        by_name.setdefault(match[1].lower(), value)  # browsers use the first one
    return by_name


def values(by_name: Mapping[str, tuple[str, int, int, str]]) -> dict[str, str]:
    """Returns the values of attributes, still escaped."""
    return {name: value for name, (value, *_) in by_name.items()}


def is_text(name: str, attribute: str, others: Mapping[str, str]) -> bool:
    """Whether an attribute of an element is text to translate.

    Args:
        name: name of the element.
        attribute: name of the attribute.
        others: values of all attributes.
    """
    if attribute in XHTML.attributes["*"] or attribute in XHTML.attributes.get(name, ()):
        return True
    if name == "input" and attribute == "value":
        return others.get("type", "").lower() in _BUTTONS
    if name == "meta" and attribute == "content":
        kind = others.get("name") or others.get("property") or ""
        return kind.lower() in _DESCRIPTIONS
    return False


def says_translated(others: Mapping[str, str]) -> bool | None:
    """Whether an element's attributes allow translation; None: they do not say."""
    written = others.get("translate")
    if written is not None and written.lower() in ("yes", "no", ""):
        return written.lower() != "no"
    return False if XHTML.untranslated_class in others.get("class", "").split() else None

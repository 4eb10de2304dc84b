"""Which elements of HTML are blocks, which move with the text, and which attributes are text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from dragoman_client.markup.xml_profiles import XHTML

VOID: Final = frozenset(
    (
        *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param"),
        *("source", "track", "wbr"),
    )
)
"""Elements without an end."""
INLINE_VOID: Final = frozenset(("br", "wbr", "img", "input", "embed"))
NEVER_NESTED: Final = frozenset(("a", "nobr"))
"""A second one ends the first."""
_CELLS = frozenset(("td", "th"))
_ENDED: Final[Mapping[str, frozenset[str]]] = {
    "li": frozenset(("li",)),
    **dict.fromkeys(("dt", "dd"), frozenset(("dt", "dd"))),
    **dict.fromkeys(_CELLS, _CELLS),
    "tr": _CELLS | {"tr"},
    **dict.fromkeys(("tbody", "tfoot"), _CELLS | {"tr", "thead", "tbody"}),
    "option": frozenset(("option",)),
    "optgroup": frozenset(("option", "optgroup")),
}
TITLES: Final = frozenset(("title", "h1", "h2", "h3", "h4", "h5", "h6"))
"""Elements whose texts are titles."""
_BUTTONS = frozenset(("button", "reset"))
"""Not `submit`: its value is sent."""
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
_ATTRIBUTE = re.compile(
    r"""([^\s"'<>/=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'=<>`]+)))?""", re.DOTALL
)


def ends(name: str, around: str) -> bool:
    """Whether the begin of a block ends the one around it, which has no end tag then."""
    return around == "p" or around in _ENDED.get(name, ())


def role(name: str) -> str:
    """The role of an element: `block`, `inline`, `keep`, `opaque` or `skip`."""
    return XHTML.roles.get(name, "block")


def attributes(tag: str) -> dict[str, tuple[str, int, int, str]]:
    """Attributes of a tag: value, where it begins and ends, and its quotation mark, if any."""
    begin = re.match(r"</?[^\s/>]+", tag)
    found: dict[str, tuple[str, int, int, str]] = {}
    for one in _ATTRIBUTE.finditer(tag, begin.end() if begin else 0):
        group = next((number for number in (2, 3, 4) if one[number] is not None), None)
        name = one[1].lower()
        if name in found:
            continue  # browsers take the first one
        if group is None:
            found[name] = "", one.end(), one.end(), ""
        else:
            found[name] = one[group], *one.span(group), {2: '"', 3: "'", 4: ""}[group]
    return found


def is_text(name: str, attribute: str, others: Mapping[str, str]) -> bool:
    """Whether an attribute of an element is text to translate.

    Args:
        name: of the element.
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


def may_translate(others: Mapping[str, str], around: bool) -> bool:
    """Whether an element may be translated, by its attributes and what holds around it."""
    written = others.get("translate")
    if written is not None and written.lower() in ("yes", "no", ""):
        return written.lower() != "no"
    if XHTML.untranslated_class in others.get("class", "").split():
        return False
    return around

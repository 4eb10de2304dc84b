"""Plain text with HTML or XML tags in it."""

from __future__ import annotations

import re

_HTML = (
    "a|abbr|address|area|article|aside|audio|b|base|bdi|bdo|big|blockquote|body|br|button|"
    "canvas|caption|center|cite|code|col|colgroup|data|datalist|dd|del|details|dfn|dialog|"
    "div|dl|dt|em|embed|fieldset|figcaption|figure|font|footer|form|h[1-6]|head|header|"
    "hgroup|hr|html|i|iframe|img|input|ins|kbd|label|legend|li|link|main|map|mark|menu|meta|"
    "meter|nav|noscript|object|ol|optgroup|option|output|p|param|picture|pre|progress|q|rp|"
    "rt|ruby|s|samp|script|search|section|select|slot|small|source|span|strike|strong|style|"
    "sub|summary|sup|svg|table|tbody|td|template|textarea|tfoot|th|thead|time|title|tr|track|"
    "tt|u|ul|var|video|wbr"
)
"""Names of elements: https://html.spec.whatwg.org/multipage/indices.html, and older ones."""
_TAG = re.compile(
    r"</[A-Za-z][\w:.-]*+\s*+>"  # an end tag
    r"|<[A-Za-z][^<>]*+(?<=/)>"  # an empty element
    r"|<[A-Za-z][\w:.-]*+\s++[\w:.-]++\s*+=\s*+[\"'][^<>]*+>"  # with an attribute in quotes
    r"|</\d++\s*+>|<\d++\s*+/>"  # numbered, as some translation libraries have them
    rf"|<(?:{_HTML})(?:\s++[\w:.-]++\s*+=[^<>]*+|\s*+)>",
    re.IGNORECASE,
)
"""Takes linear time: what follows a `<` ends at the next one."""
_ANY = re.compile(r"</?[A-Za-z][^<>]*+>")


def has_tags(text: str) -> bool:
    """Whether a text certainly contains a tag; `a<b and c>d` and `<Enter>` are none."""
    return "<" in text and _TAG.search(text) is not None


def without_tags(text: str) -> str:
    """Returns a text with a space in place of each tag; without a certain tag, as it is."""
    return _ANY.sub(" ", text) if has_tags(text) else text

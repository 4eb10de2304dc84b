"""Plain text with HTML or XML tags in it."""

from __future__ import annotations

import re

_HTML = (
    "a|abbr|article|aside|b|blockquote|body|br|button|caption|cite|code|dd|div|dl|dt|em|footer|form|"
    "h[1-6]|head|header|hr|html|i|img|input|kbd|label|li|link|main|mark|meta|nav|ol|option|p|pre|q|"
    "s|samp|section|select|small|span|strong|sub|summary|sup|table|tbody|td|th|thead|title|tr|u|ul|"
    "var|wbr"
)
_TAG = re.compile(
    r"</[A-Za-z][\w:.-]*\s*>"  # an end tag
    r"|<[A-Za-z][^<>]*/>"  # an empty element
    r"|<[A-Za-z][\w:.-]*\s+[\w:.-]+\s*=\s*[\"'][^<>]*>"  # a tag with an attribute in quotes
    rf"|<(?:{_HTML})(?:\s+[\w:.-]+\s*=[^<>]*)?\s*>",
    re.IGNORECASE,
)
"""Takes linear time: what follows a `<` ends at the next one."""
_ANY = re.compile(r"</?[A-Za-z][^<>]*>")


def has_tags(text: str) -> bool:
    """Whether a text certainly contains a tag; `a<b and c>d` and `<Enter>` are none."""
    return "<" in text and _TAG.search(text) is not None


def without_tags(text: str) -> str:
    """Returns a text with a space in place of each tag; without a certain tag, as it is."""
    return _ANY.sub(" ", text) if has_tags(text) else text

"""Finds placeholders: parts of a text that its translation must repeat unchanged."""

from __future__ import annotations

import re

_FORMS = (
    r"https?://[^\s<>\"]*[^\s<>\".,;:!?)\]}']",  # addresses
    r"www\.[^\s<>\"]*[^\s<>\".,;:!?)\]}']",
    r"[\w.+-]{1,64}@[\w-]+\.[\w.-]*\w",  # mail; RFC 5321 allows 64 characters before the @
    r"</?[A-Za-z][^<>]*>",  # tags
    r"&(?:[A-Za-z][A-Za-z0-9]*|#\d+|#[xX][0-9A-Fa-f]+);",  # character references
    r"\{\{[^{}\n]*\}\}",  # template engines
    r"[$#]?\{[^{}\n]*\}",  # str.format, ICU, shells
    r"%\([^()\n]+\)[#0 +-]*+\d*+(?:\.\d+)?[diouxXeEfFgGcrsa]",  # printf
    r"%(?:\d+\$)?[#0+-]*+\d*+(?:\.\d+)?(?:hh|h|ll|l|L|z|j|t)?[diouxXeEfFgGcrsa@](?![A-Za-z])",
    r"(?<!\w)\d+(?:[.,:/-]\d+)*(?!\w)",  # numbers, times, dates
)
"""Each pattern must take linear time on any text. A mail address may begin at each letter, so the
length of its local part is limited. A zero is both flag and digit, so both are possessive."""
_PATTERN = re.compile("|".join(f"(?:{form})" for form in _FORMS))


def find_placeholders(text: str) -> list[str]:
    """Returns the placeholders of a text, in order, with repetitions."""
    return _PATTERN.findall(text)


def placeholder_spans(text: str) -> list[tuple[int, int]]:
    """Returns begin and end of each placeholder, in characters."""
    return [found.span() for found in _PATTERN.finditer(text)]


def is_tag(placeholder: str) -> bool:
    """Whether it is a tag, which must keep its order among the tags."""
    return placeholder.startswith("<")


def split_at_placeholders(text: str) -> list[str]:
    """Returns the parts between the placeholders of a text: one more than placeholders."""
    return _PATTERN.split(text)

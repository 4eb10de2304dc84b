"""What stands in a text for something else, and is to stand in its translation as it is."""

from __future__ import annotations

import re

_FORMS = (
    r"https?://[^\s<>\"]*[^\s<>\".,;:!?)\]}']",  # addresses
    r"www\.[^\s<>\"]*[^\s<>\".,;:!?)\]}']",
    r"[\w.+-]{1,64}@[\w-]+\.[\w.-]*\w",  # mail; RFC 5321 allows 64 characters before the @
    r"</?[A-Za-z][^<>]*>",  # tags
    r"\{\{[^{}\n]*\}\}",  # template engines
    r"[$#]?\{[^{}\n]*\}",  # str.format, ICU, shells
    r"%\([^()\n]+\)[#0 +-]*+\d*+(?:\.\d+)?[diouxXeEfFgGcrsa]",  # printf
    r"%(?:\d+\$)?[#0+-]*+\d*+(?:\.\d+)?(?:hh|h|ll|l|L|z|j|t)?[diouxXeEfFgGcrsa@](?![A-Za-z])",
    r"(?<!\w)\d+(?:[.,:/-]\d+)*(?!\w)",  # numbers, times, dates
)
"""None may take longer than a text's length allows, whatever stands there: the local part of a mail
address begins at each letter, so its length is bounded, and a zero is both flag and digit, so
neither gives any back."""
_PATTERN = re.compile("|".join(f"(?:{form})" for form in _FORMS))


def find_placeholders(text: str) -> list[str]:
    """The placeholders of a text, in their order, each as often as it stands there."""
    return _PATTERN.findall(text)


def placeholder_spans(text: str) -> list[tuple[int, int]]:
    """Begin and end of each, in characters."""
    return [found.span() for found in _PATTERN.finditer(text)]


def is_tag(placeholder: str) -> bool:
    """Whether it begins or ends something, so that its place among its like matters."""
    return placeholder.startswith("<")


def split_at_placeholders(text: str) -> list[str]:
    """What stands between the placeholders of a text: one more than they are."""
    return _PATTERN.split(text)

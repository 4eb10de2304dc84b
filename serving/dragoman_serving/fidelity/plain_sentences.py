"""Recognizes most sentences that need no rule: the model reads them as they are, and alone."""

from __future__ import annotations

import re

from dragoman_serving.fidelity.casing import may_be_title
from dragoman_serving.fidelity.literals import LETTERS, LONE_LETTER
from dragoman_serving.fidelity.names import names_of
from dragoman_serving.fidelity.spellings import spellings

_OF_LANGUAGE = {
    code: re.compile(
        rf"(?!{LONE_LETTER})[A-Z{capitals}][a-z{letters}]*+"
        rf"(?:(?:,? (?!{LONE_LETTER})|['-])(?:[A-Z{capitals}]?[a-z{letters}]++|[A-Z{capitals}]))*+"
        r"[.!?]?"
    )
    for code, letters in {"": "", **LETTERS}.items()
    for capitals in [letters.upper()]
}
"""Words that single spaces, commas, hyphens or apostrophes separate, from a capital on. Only the
first letter of a word may be a capital. The language "" stands for those without known letters."""


def is_plain(text: str, language: str, target: str = "") -> bool:
    """Whether a text is certainly one sentence without literals, in its usual case.

    Args:
        text: any text.
        language: its language code.
        target: that of its translation.
    """
    pattern = _OF_LANGUAGE.get(language, _OF_LANGUAGE[""])
    if pattern.fullmatch(text) is None or text.isupper() or may_be_title(text, language):
        return False
    has_names = next(names_of(text, language), None) is not None
    return not has_names and not spellings(text, language, target)

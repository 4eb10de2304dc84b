"""Capital and small letters by language; the length of a text never changes.

Source: Unicode CLDR 46, the transforms tr-Lower, tr-Upper, el-Upper and nl-Title. Crimean Tatar and
Gagauz have the letters of Turkish too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from dragoman_options.language_codes import current_code

_DOTTED_I = dict.fromkeys(("az", "crh", "gag", "tr"), ("Iİ", "\u0131i"))
_LOWER = {language: str.maketrans(*letters) for language, letters in _DOTTED_I.items()}
_FIRST = {language: str.maketrans(*reversed(letters)) for language, letters in _DOTTED_I.items()}
_ALL = _FIRST | {"el": str.maketrans("άέήίόύώΐΰΆΈΉΊΌΎΏ", "ΑΕΗΙΟΥΩΪΫΑΕΗΙΟΥΩ")}
"""Capitals of words with only their first letter in capitals, and of words in capitals."""
_USUAL_LOWER, _USUAL_UPPER = str.maketrans("İ", "i"), str.maketrans("ß", "ẞ")
"""Letters for which `str.lower` and `str.upper` give several characters."""
_FIRST_LETTERS = {"nl": re.compile("ij", re.IGNORECASE)}
"""What is one letter at the beginning of a word: `IJsland`."""


def lower(text: str, language: str = "") -> str:
    """Returns a text in small letters."""
    return text.translate(_LOWER.get(_base(language), _USUAL_LOWER)).lower()


def upper(text: str, language: str = "") -> str:
    """Returns a text in capitals; letters without a single capital stay."""
    return _upper(text, _ALL.get(_base(language), _USUAL_UPPER))


def with_capital(text: str, language: str = "") -> str:
    """Returns a text with a capital at its beginning."""
    base = _base(language)
    letters = _FIRST_LETTERS.get(base)
    length = 2 if letters and letters.match(text) else 1
    return _upper(text[:length], _FIRST.get(base, _USUAL_UPPER)) + text[length:]


def _upper(text: str, rules: Mapping[int, int]) -> str:
    text = text.translate(rules)
    capitals = text.upper()
    if len(capitals) == len(text):
        return capitals
    return "".join(letter.upper() if len(letter.upper()) == 1 else letter for letter in text)


@lru_cache(maxsize=256)
def _base(language: str) -> str:
    return current_code(re.split("[-_]", language)[0].lower())

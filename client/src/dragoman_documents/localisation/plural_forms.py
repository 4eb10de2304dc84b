"""The number of plural forms of languages, as gettext's tools assume it.

Source: https://cldr.unicode.org/index/cldr-spec/plural-rules (forms of whole numbers)
"""

from __future__ import annotations

from typing import Final

_FORMS: Final = {
    1: "bo dz id ja km ko lo ms my su th to vi yue zh",
    3: "be bs cs hr lt lv mo pl ro ru sh sk sr uk",
    4: "gd mt sl",
    5: "br ga",
    6: "ar cy",
}
_NUMBERS: Final = {code: number for number, codes in _FORMS.items() for code in codes.split()}


def plural_forms(language: str) -> int:
    """Returns the number of plural forms of a language; 2 if it is not known."""
    return _NUMBERS.get(language.replace("_", "-").partition("-")[0].lower(), 2)

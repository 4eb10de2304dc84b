"""Units of measurement after numbers, whose symbols languages share: `3.5 kg`, `30 km`."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NAMES = {
    "g": r"gramm?(?:es|s)?\b",
    "l": r"lit(?:er|re|ern)s?\b",
    "m": r"m[eè]t(?:er|re|ern)s?\b",
    "t": r"tonn",
    "min": "minut",
    "sec": r"se[ck]|s\b",
    "hrs": r"stunde|std|hour|heure|h\b",
    "kg": "kilo",
    "mg": "milligr",
    "km": "kilom",
    "cm": "[cz]entim",
    "mm": "millim",
    "ml": "millil",
    "cl": "[cz]entil",
    "km/h": "kilom|stundenkilom",
    "mph": "miles|meilen|milles",
    "V": "volt",
    "W": "watt",
    "kW": "kilowatt",
    "kWh": "kilowatt",
    "MW": "megawatt|mégawatt",
    "kHz": "kilohertz",
    "MHz": "m[eé]gahertz",
    "GHz": "gigahertz",
    "kB": r"kilob|kilo-?o|ko\b",
    "MB": r"megab|méga-?o|mo\b",
    "GB": r"gigab|giga-?o|go\b",
    "TB": r"terab|téra-?o|to\b",
    "mAh": "milliamp",
    "lb": r"pfund|pounds?\b|livres?\b",
    "lbs": r"pfund|pounds?\b|livres?\b",
    "oz": r"unze|ounce|onces?\b",
    "ft": r"fuß\b|foot\b|feet\b|pieds?\b",
}
"""How their names begin, in English, German and French."""
UNITS = frozenset(_NAMES)
SYMBOLS = "|".join(sorted(UNITS, reverse=True))
"""For an expression; each before those with which it begins."""
FORM = rf"(?<=\d[ \u00a0\u202f-])(?:{SYMBOLS})(?![\w/’'])"  # noqa: RUF001
"""A unit in a text."""
_UNIT = re.compile(FORM)
_WRITTEN = {
    unit: re.compile(rf"(?i:(?<![^\W\d_])(?:{unit}(?!\w)|{names}))")
    for unit, names in _NAMES.items()
}
"""A unit in a translation, in whichever case, or its name."""
_CASELESS = {unit: re.compile(rf"(?i:(?<=\d)[\s-]?({unit})(?!\w))") for unit in _NAMES}
_LETTER = re.compile(r"(?<![^\W\d_])[A-Z]\)")


def has_unit(written: str, unit: str) -> bool:
    """Whether a translation has a unit, in whichever case, or its name."""
    return _WRITTEN[unit].search(written) is not None


def recased(source: str, target: str, *_languages: str) -> Iterator[tuple[int, int, str]]:
    """Yields what to change in a translation so that units are written as in its source: `12 Kg`.

    So are letters of references: `point B)`.

    Args:
        source: a text.
        target: its translation.
    """
    units = set(_UNIT.findall(source))
    for unit in units:
        for match in _CASELESS[unit].finditer(target):
            if match[1] not in units:
                yield *match.span(1), unit
    for match in _LETTER.finditer(target):
        if match[0].lower() in source and match[0] not in source:
            yield *match.span(), match[0].lower()

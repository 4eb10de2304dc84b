"""Units of measurement after numbers, whose symbols languages share: `3.5 kg`, `30 km`."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NAMES = {
    "kg": "kilo",
    "mg": "milligr",
    "km": "kilom",
    "cm": "[cz]entim",
    "mm": "millim",
    "ml": "millil",
    "cl": "[cz]entil",
    "km/h": "kilom|stundenkilom",
    "mph": "mil|meil",
    "V": "volt",
    "W": "watt",
    "kW": "kilowatt",
    "kWh": "kilowatt",
    "MW": "megawatt|mégawatt",
    "kHz": "kilohertz",
    "MHz": "m[eé]gahertz",
    "GHz": "gigahertz",
    "kB": r"kilob|\bko\b",
    "MB": r"megab|mégao|\bmo\b",
    "GB": r"gigab|gigao|\bgo\b",
    "TB": r"terab|térao|\bto\b",
    "mAh": "milliamp",
    "lb": "pfund|pound|livre",
    "lbs": "pfund|pound|livre",
    "oz": "unze|ounce|once",
    "ft": "fuß|foot|feet|pied",
}
"""How their names begin, in English, German and French."""
UNITS = frozenset(_NAMES)
SYMBOLS = "|".join(sorted(UNITS, reverse=True))
"""For an expression; longer ones first."""
FORM = rf"(?<=\d[ \u00a0\u202f])(?:{SYMBOLS})(?![\w/])"
"""A unit in a text."""


_UNIT = re.compile(FORM)
_WRITTEN = {
    unit: re.compile(rf"(?i:(?<![^\W\d_]){unit}(?!\w)|{names})") for unit, names in _NAMES.items()
}
"""A unit in a translation, in whichever case, or its name."""
_CASELESS = {unit: re.compile(rf"(?i:(?<=\d)\s?{unit}(?!\w))") for unit in _NAMES}


def has_unit(written: str, unit: str) -> bool:
    """Whether a translation has a unit, in whichever case, or its name."""
    return _WRITTEN[unit].search(written) is not None


def recased(source: str, target: str, *_languages: str) -> Iterator[tuple[int, int, str]]:
    """Yields what to change in a translation so that units are written as in its source: `12 Kg`.

    Args:
        source: a text.
        target: its translation.
    """
    units = set(_UNIT.findall(source))
    for unit in units:
        for match in _CASELESS[unit].finditer(target):
            if (written := match[0].lstrip()) not in units:
                yield match.end() - len(written), match.end(), unit

"""Finds numbers from 13 on that are written as words, such as `twenty-seven`, with their digits.

A weak model writes another number for most of them, but repeats digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dragoman.kernel.texts.cutting import Span

_LEAST, _TEN, _TWENTY, _HUNDRED, _THOUSAND = 13, 10, 20, 100, 1000
_MOST_PARTS = 10
_WORDS = {
    "de": "ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn"
    " sechzehn siebzehn achtzehn neunzehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig"
    " neunzig hundert tausend",
    "en": "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
    " hundred thousand",
    "fr": "un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize"
    " dix-sept dix-huit dix-neuf vingt trente quarante cinquante soixante septante quatre-vingt"
    " nonante cent mille",
}
VALUES = {
    language: dict(
        zip(words.split(), (*range(1, 20), *range(20, 100, 10), _HUNDRED, _THOUSAND), strict=True)
    )
    for language, words in _WORDS.items()
}
VALUES["de"]["dreissig"] = 30
VALUES["fr"] |= {"une": 1, "cents": _HUNDRED, "quatre-vingts": 80}
"""Words of numbers by language, with their values."""
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
_ENGLISH = {1: "st", 2: "nd", 3: "rd"}
_PARTS = {
    language: "|".join(sorted(values, key=len, reverse=True)) for language, values in VALUES.items()
}
_BETWEEN = {
    "de": "(?:und)?",
    "en": r"(?:(?:(?<=hundred)|(?<=thousand),?) and |[ -])",
    "fr": r"(?:(?: et |-et-)(?=un|onze)|[ -])",
}
_END_OF_PART = {"de": "", "en": r"(?!\w)", "fr": r"(?!\w)"}
_ORDINAL = {"de": "ste[mnrs]?", "en": rf"-(?:{'|'.join(_ORDINALS)})", "fr": "(?!)"}
_NUMBER = {
    language: re.compile(
        rf"(?<![\w-])(?i:(?>{parts}){_END_OF_PART[language]}"
        rf"(?>{_BETWEEN[language]}(?:{parts}){_END_OF_PART[language]})*+"
        rf"(?P<ordinal>{_ORDINAL[language]})?)(?!\w)"
    )
    for language, parts in _PARTS.items()
}
_PART = {language: re.compile(parts) for language, parts in _PARTS.items()}
_NAME = re.compile(r"[ -][A-Z]")


def number_words(text: str, language: str) -> Iterator[tuple[Span, str]]:
    """Yields the spans of numbers in words, with their digits.

    Args:
        text: a text.
        language: its language; nothing for others than English, German and French.
    """
    for match in _NUMBER[language].finditer(text) if language in _NUMBER else ():
        ordinal = (match["ordinal"] or "").lower()
        written = match[0].lower().removesuffix(ordinal)
        values = [VALUES[language][part] for part in _PART[language].findall(written)]
        if ordinal[1:] in _ORDINALS:
            values.append(_ORDINALS.index(ordinal[1:]) + 1)
        number = _number(values, language)
        is_name = language != "de" and match[0].istitle() and _NAME.match(text, match.end())
        if number < _LEAST or (len(values) == 1 and number >= _HUNDRED) or is_name:
            continue
        ending = "." if language == "de" else _ENGLISH.get(number % _TEN, "th")
        yield match.span(), f"{number}{ending if ordinal else ''}"


def _number(values: Sequence[int], language: str) -> int:
    """The number that words of some values are together; 0 if they are none, as `one two`."""
    if len(values) > _MOST_PARTS:
        return 0
    first, second, *_ = (*values, 0)
    if language == "en" and _LEAST <= first <= _TWENTY and _TEN <= second < _HUNDRED:
        year = _number(values[1:], language)  # nineteen eighty-four
        return first * _HUNDRED + year if year < _HUNDRED else 0
    thousands = number = last = 0
    for value in values:
        if value == _THOUSAND and not thousands:
            thousands, number, last = (number or 1) * _THOUSAND, 0, 0
        elif value == _HUNDRED and number < _HUNDRED:
            number, last = (number or 1) * _HUNDRED, _HUNDRED
        elif value < _HUNDRED and (last in (0, _HUNDRED) or _continues(last, value, language)):
            number, last = number + value, value
        else:
            return 0
    return thousands + number


def _continues(last: int, value: int, language: str) -> bool:
    """Whether a word continues the number of the word before: `twenty-seven`."""
    if language == "de":
        return last < _TEN and value >= _TWENTY
    if language == "fr" and last in (60, 80):
        return value < _TWENTY
    return last >= _TWENTY and value < _TEN

"""Numbers that are written as words."""

from __future__ import annotations

import pytest
from dragoman_serving.fidelity.number_words import number_words
from hypothesis import given
from hypothesis import strategies as st

UNITS = {
    "de": "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn"
    " fünfzehn sechzehn siebzehn achtzehn neunzehn",
    "en": "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
    " fifteen sixteen seventeen eighteen nineteen",
    "fr": "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze"
    " seize dix-sept dix-huit dix-neuf",
}
TENS = {
    "de": "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    "en": "twenty thirty forty fifty sixty seventy eighty ninety",
    "fr": "vingt trente quarante cinquante soixante soixante quatre-vingt quatre-vingt",
}


def in_words(number: int, language: str) -> str:
    """A number below a million in words."""
    if number >= 1000:
        first, last = divmod(number, 1000)
        thousand = {"de": "tausend", "en": " thousand", "fr": " mille"}[language]
        before = in_words(first, language) if first > 1 or language == "en" else ""
        rest = in_words(last, language) if last else ""
        gap = " " if rest and language != "de" else ""
        return f"{before}{thousand}{gap}{rest}".strip()
    if number >= 100:
        first, last = divmod(number, 100)
        hundred = {"de": "hundert", "en": " hundred", "fr": " cent"}[language]
        before = in_words(first, language) if first > 1 or language == "en" else ""
        rest = in_words(last, language) if last else ""
        gap = {"de": "", "en": " and ", "fr": " "}[language] if rest else ""
        return f"{before}{hundred}{gap}{rest}".strip()
    units, tens = UNITS[language].split(), TENS[language].split()
    if number < 20:
        return units[number]
    ten, unit = divmod(number, 10)
    if language == "fr" and ten in (7, 9):
        unit += 10
    if not unit:
        return tens[ten - 2]
    if language == "de":
        return f"{units[unit]}und{tens[ten - 2]}"
    joint = " et " if language == "fr" and unit in (1, 11) and ten < 8 else "-"
    return f"{tens[ten - 2]}{joint}{units[unit]}"


def digits(text: str, language: str) -> list[str]:
    return [number for _, number in number_words(text, language)]


@given(st.integers(13, 999_999), st.sampled_from(["de", "en", "fr"]))
def test_numbers_in_words_are_read_in_digits(number: int, language: str) -> None:
    words = in_words(number, language)
    expected = [] if words in ("hundert", "tausend", "cent", "mille") else [str(number)]
    for text in (words, f"X {words.upper()}, x", f"{words[0].upper()}{words[1:]} x"):
        numbers = list(number_words(text, language))
        assert [found_digits for _, found_digits in numbers] == expected
        assert all(text[slice(*span)].casefold() == words.casefold() for span, _ in numbers)


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "one two three, twelve, a hundred, ten thousandth", []),
        ("en", "fifty-fifty, thirty-something, Twenty One Pilots, often, tenfold", ["30"]),
        ("en", "in nineteen eighty-four and twenty ten", ["1984", "2010"]),
        ("en", "the twenty-first, thirty-second and forty-third", ["21st", "32nd", "43rd"]),
        ("en", "twenty-one-year-old, seventy and eighty", ["21", "70", "80"]),
        ("de", "neunzehnhundertachtzig, hundert, Achtung, zwanzigjährig, Vierzig", ["1980", "40"]),
        ("de", "am einundzwanzigsten Mai", ["21."]),
        ("fr", "cent, mille fois, dix-sept pour cent, vingt-et-une, unanime", ["17", "21"]),
        ("en", "twenty " * 5000, []),
        ("it", "ventisette, twenty-seven", []),
    ],
)
def test_other_words_stay(language: str, text: str, expected: list[str]) -> None:
    assert digits(text, language) == expected

"""Ordinal numbers and days of months, as languages write them: `23rd`, `23.`, `23e`.

Models often copy them as the source has them: `die 23rd Seite`, `the 2. World War`, `am 7 Juni`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dragoman_serving.fidelity.phrases import months

_NUMBER = r"(?<![\w.,:/-])(?P<number>\d{1,3}(?:[.,\u202f]?\d{3})*)"
_ORDINALS = {
    "en": re.compile(rf"{_NUMBER}(?P<ending>(?:st|nd|rd|th)(?:e[nrs]?)?)(?!\w)-?"),
    "de": re.compile(rf"(?<=[\w,;] ){_NUMBER}(?P<ending>\.)(?=\s[^\W\d_])"),
    "fr": re.compile(rf"{_NUMBER}(?P<ending>(?:er|re|ère|nde?|e|i?[eè]me)s?)(?!\w)-?"),
}
_GERMAN_ENDING = re.compile(rf"{_NUMBER}(?P<ending>(?<!0)er|s?te[mnrs]?)(?!\w)")
"""What stands for the point in some translations: `die 47er Tür`, `das 30ste Kind`; not `80er`."""
_CENTURY = re.compile(rf"{_NUMBER}(?=\s(?:Jahrhundert|siècle|century))")
_ROMAN = re.compile(r"(?<![^\s(])[IVX]{1,6}(?P<ending>\.)(?=\s[a-zß-ÿ])")
_DAY = re.compile(r"(?<!\d)\d{1,2}(?!\d)")
_MARKS = re.compile(r"\D")
_MONTHS = {language: "|".join(months(language)) for language in _ORDINALS}
_BEFORE_MONTH = {
    language: re.compile(rf"\s(?:{names})(?!\w)") for language, names in _MONTHS.items()
}
_GERMAN_DAY = re.compile(rf"(?<![\d.,:/-])(?:[12]\d|3[01]|[1-9])(?= (?:{_MONTHS['de']})(?!\w))")
_TWICE = re.compile(rf"\b(?P<month>{_MONTHS['en']}) \d{{1,2}}(?P<again>,? (?P=month))(?= \d{{4}})")
_TWO_DAYS = {
    language: re.compile(
        rf"(?<![\w.,:/-])(?P<day>\d{{1,2}})\.? (?P<month>{names}) (?=\d{{1,2}}\.? (?P=month)(?!\w))"
    )
    for language, names in _MONTHS.items()
}
_ENGLISH = {1: "st", 2: "nd", 3: "rd"}
_TEENS = range(11, 14)


def ordinals(
    source: str, target: str, source_language: str, target_language: str
) -> Iterator[tuple[int, int, str]]:
    """Yields what to change in a translation so that its ordinals are written as its language does.

    Args:
        source: a text.
        target: its translation.
        source_language: language of the text.
        target_language: language of the translation.
    """
    if not {source_language, target_language} <= _ORDINALS.keys():
        return
    yield from _endings(source, target, source_language, target_language)
    days = set(_DAY.findall(source))
    for match in _TWO_DAYS[target_language].finditer(target):
        if match["day"] not in days:
            yield *match.span(), ""
    if source_language == "de":
        yield from ((*match.span("ending"), "") for match in _ROMAN.finditer(target))
    if target_language == "de":
        yield from ((match.end(), match.end(), ".") for match in _GERMAN_DAY.finditer(target))
    if target_language == "en":
        for match in _ORDINALS["en"].finditer(target):
            if match["ending"] != (right := _ending(match["number"], "en")):
                yield *match.span("ending"), right
        yield from ((*match.span("again"), ",") for match in _TWICE.finditer(target))


def _endings(
    source: str, target: str, source_language: str, target_language: str
) -> Iterator[tuple[int, int, str]]:
    """The endings of ordinals that a translation has as the source writes them, or not at all."""
    pattern = _ORDINALS[source_language]
    copied = {match["number"] for match in pattern.finditer(source)}
    patterns = [pattern, _GERMAN_ENDING] if target_language == "de" else [pattern]
    endings = {
        match.start(): match for ending in patterns for match in ending.finditer(target) if copied
    }
    for match in endings.values():
        if match["number"] in copied:
            is_day = _BEFORE_MONTH[target_language].match(target, match.end()) is not None
            gap = " " * target[match.end() : match.end() + 1].isalpha()
            ending = _ending(match["number"], target_language, is_day)
            if target[match.end() : match.end() + 1] == ".":
                ending = ending.removesuffix(".")
            yield match.start("ending"), match.end(), ending + gap
    for match in _CENTURY.finditer(target):
        if match["number"] in copied:
            yield match.end(), match.end(), _ending(match["number"], target_language)


def _ending(number: str, language: str, is_day: bool = False) -> str:
    """The ending of an ordinal; `is_day`: a month follows."""
    value = int(_MARKS.sub("", number))
    if language == "de":
        return "."
    if language == "fr":
        return "er" if value == 1 else "e" * (not is_day)
    if is_day:
        return ""
    return "th" if value % 100 in _TEENS else _ENGLISH.get(value % 10, "th")

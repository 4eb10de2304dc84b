"""Compares the numbers of a text and of its translation by value, in each language's conventions.

It knows nothing of the product's own recognition. A number with digits must have a counterpart of
the same value on the other side, and so must one from 13 to 99 in words; another number in words,
a month or a Roman numeral may have one. If digits can be read in several ways, such as 14.30, the
reading that fits counts.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from lab.fidelity.number_words import AFTERNOON, in_digits, number_words, scales


@dataclass(frozen=True)
class Number:
    """A number of a text: its possible values, and whether the other side must have it."""

    values: frozenset[Fraction]
    required: bool = True

    def __str__(self) -> str:
        return "|".join(sorted(map(str, self.values)))

    def also(self, change: Callable[[Fraction], Fraction]) -> Number:
        """The number with further values."""
        return replace(self, values=self.values | set(map(change, self.values)))


Reading = list[Number]
"""The numbers of a token or a text, read in one way."""

_MOST_READINGS = 64
_DECIMAL = {"en": ".", "de": ",", "fr": ","}
_FRACTIONS = {
    sign: Fraction(unicodedata.numeric(sign)).limit_denominator(10) for sign in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
}
_POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_SPELLINGS = (
    ("[\u00a0\u2009\u202f]", " "),
    *(("[\u2019\u2032]", "'"), ("\u2044", "/"), ("[\u2011\u2212]", "-"), ("\u2013", "-")),
)
"""Patterns of spaces, apostrophes, fraction slashes, minus signs and dashes."""
_TOKEN = re.compile(
    r"(?P<phone>(?:\+\d|\(?\b0\d{2,5}\)?[ /-]\d)[\d ()/-]{5,}\d(?!\d*[.,:]\d))|"
    r"(?P<fraction>(?<![\d/.,])(?:\d+ )?\d{1,2}/[1-9]\d{0,2}(?![\d/]|[.-]\d))|"
    r"(?P<run>\d+(?:[.,']\d+| \d{3}(?![\d/]))*)(?P<power>[⁰¹²³⁴-⁹]*)"
    rf" ?(?P<part>[{''.join(_FRACTIONS)}]?)|(?P<sign>[{''.join(_FRACTIONS)}])|"
    rf"(?P<word>[^\W\d_]+(?:[-'][^\W\d_]+)*)"
)
_GROUPED = re.compile(r"[1-9]\d{0,2}(?:([.,' ])\d{3})(?:\1\d{3})*(?:(?!\1)[.,]\d+)?")
_ROMAN = re.compile(r"(?=[IVX])(X{0,3})(IX|IV|V?I{0,3})(?:e|er|ème)?")
_ROMAN_UNITS = ["", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX"]
_DECADE = {"en": re.compile(r"'?s\b"), "de": re.compile(r"-?ern?\b"), "fr": re.compile("(?!)")}
_MINUS = re.compile(r"\b(?:minus|negative|moins) $", re.IGNORECASE)
_MINUTES_FOLLOW = re.compile(r"\d ?(?:[:h]|Uhr|heures) ?$")
_INDEX = re.compile(r"(?<![A-Za-z])(?:[cdk]?m[23]|C?O2|H2|N2)$")
"""A unit or a chemical formula, which may be written in words."""
_RANGE = re.compile(r" ?(?:-|to|and|or|bis|und|oder|à|et|ou) ?\d[\d.,]*")
_LETTER_SCALES = {"k": 10**3, "K": 10**3, "m": 10**6, "M": 10**6}


def differing(
    source: str, src: str, target: str, tgt: str
) -> tuple[Sequence[Number], Sequence[Number]] | None:
    """The numbers without a counterpart, of a text and of its translation; None: all have one.

    Args:
        source: a text.
        src: its language: en, de or fr.
        target: its translation.
        tgt: the language of that.
    """
    results = []
    lefts = readings(source, src, is_source=True)
    for left, right in itertools.product(lefts, readings(target, tgt)):
        results.append((_unmatched(left, right), _unmatched(right, left)))
        if not any(results[-1]):
            return None
    return min(results, key=lambda result: len(result[0]) + len(result[1]))


def _unmatched(numbers: Reading, others: Reading) -> Reading:
    """The required numbers without a counterpart in the largest matching."""
    owners: dict[int, int] = {}

    def match(index: int, tried: set[int]) -> bool:
        for other, number in enumerate(others):
            if other not in tried and numbers[index].values & number.values:
                tried.add(other)
                if other not in owners or match(owners[other], tried):
                    owners[other] = index
                    return True
        return False

    required = (index for index, number in enumerate(numbers) if number.required)
    return [numbers[index] for index in required if not match(index, set())]


def readings(text: str, language: str, *, is_source: bool = False) -> list[Reading]:
    """Returns all readings of a text's numbers, the most usual one first.

    Args:
        text: any text.
        language: its language.
        is_source: whether it may have thousands as in English, which French newspapers have.
    """
    text = unicodedata.normalize("NFC", text).translate(_SUBSCRIPTS)
    for pattern, spelling in _SPELLINGS:
        text = re.sub(pattern, spelling, text)
    text = in_digits(text, language)
    texts = [text]
    if is_source and language == "fr":
        texts += {re.sub(r"(?<![\d.,])([1-9]\d{0,2}),(\d{3})(?![\d,])", r"\1'\2", text)} - {text}
    combined = (
        product for text in texts for product in itertools.product(*_tokens(text, language))
    )
    some = itertools.islice(combined, _MOST_READINGS)
    return [list(itertools.chain(*numbers)) for numbers in some]


def _tokens(text: str, language: str) -> Iterator[list[Reading]]:
    """The readings of each token with a number."""
    end = 0
    while token := _TOKEN.search(text, end):
        token_readings, end = _read(token, language)
        if token_readings[0]:
            factor, end = _scale(text, end, language)
            for reading in token_readings:
                reading[-1] = _scaled(reading[-1], factor, text[end:], language)
            yield token_readings


def _read(token: re.Match[str], language: str) -> tuple[list[Reading], int]:
    """The readings of a token without its scale, and its end."""
    if word := token["word"]:
        values = number_words(word, language) or _roman(word)
        number = Number(values, required=False)
        if _MINUS.search(token.string[: token.start()]):
            number = number.also(lambda value: -value)
        return [[number] if values else []], token.end()
    if token["sign"]:
        return [[_number(_FRACTIONS[token["sign"]])]], token.end()
    if token["phone"] and sum(map(str.isdigit, token[0])) > 7:
        return [[_number(int(re.sub(r"\D", "", token[0])))]], token.end()
    if token["fraction"]:
        *whole, parts = token[0].split()
        numerator, denominator = map(int, parts.split("/"))
        value = Fraction(numerator, denominator) + sum(map(int, whole))
        separate = [_number(int(number)) for number in re.findall(r"\d+", token[0])]
        return [separate, [_number(value)]], token.end()
    return _read_run(token, language)


def _read_run(token: re.Match[str], language: str) -> tuple[list[Reading], int]:
    """The readings of digits with separators, and the end of what they were read from."""
    run, power, part = token["run"], token["power"] or "", token["part"]
    if not run or (" " in run and not _GROUPED.fullmatch(run)):  # of a phone number's form, a list
        digits = re.compile(r"\d+").search(token[0])
        run, end = (digits[0], token.start() + digits.end()) if digits else ("", token.end())
    elif part or 0 < len(power) < 4:
        value = _plain(run, language) ** int(power.translate(_POWERS) or 1)
        return [[_number(value + _FRACTIONS.get(part, 0))]], token.end()
    else:
        end = token.end("run")
    before, after = token.string[: token.start()], token.string[end:]
    run_readings = [[_number(value) for value in values] for values in _values(run, language)]
    return [_in_context(reading, run, before, after, language) for reading in run_readings], end


def _values(run: str, language: str) -> Iterator[list[Fraction]]:
    """The values of digits with separators, for each reading."""
    separators, groups = re.findall(r"\D", run), re.split(r"\D", run)
    separate = [Fraction(group) for group in groups]
    decimal = _DECIMAL[language]
    if not separators:
        yield separate
    elif len(separators) == 1 and separators[0] in ".,":
        grouped, own = _GROUPED.fullmatch(run), separators[0] == decimal
        if grouped and not own:
            yield [Fraction("".join(groups))]
        if not grouped or own or language == "fr":
            yield [Fraction(".".join(groups))]
        if len(groups[1]) < 3 or len(groups[0]) > 3:  # times, dates, lists
            yield separate
    elif _GROUPED.fullmatch(run):
        yield [_plain(run, language)]
        if " " in separators:
            yield separate
    else:
        yield separate


def _plain(run: str, language: str) -> Fraction:
    """The value of digits with grouped thousands, or else of those before and after a mark."""
    if match := _GROUPED.fullmatch(run):
        separator, is_mixed = match[1], len(set(re.findall(r"\D", run))) > 1
        if separator != _DECIMAL[language] or run.count(separator) > 1 or is_mixed:
            run = run.replace(separator, "")
    return Fraction(run.replace(",", ".")) if run.count(",") + run.count(".") < 2 else Fraction(0)


def _in_context(numbers: Reading, run: str, before: str, after: str, language: str) -> Reading:
    """The numbers of a run with the values that they have beside certain words and signs."""
    first, *rest = numbers
    two, four = bool(re.fullmatch(r"\d\d", run)), bool(re.fullmatch(r"\d{4}", run))
    if re.search(r"(?:^|[\s(\[])-$", before):
        first = replace(first, values=frozenset(-value for value in first.values))
    elif _MINUS.search(before):
        first = first.also(lambda value: -value)
    if (two or four) and (_DECADE[language].match(after) or before.endswith("années ")):
        first = first.also(lambda value: value % 100).also(lambda value: 1900 + value % 100)
    if two and (century := re.search(r"(\d\d)\d\d ?[-/] ?$", before)):
        first = first.also(lambda value: int(century[1]) * 100 + value)
    if two and before.endswith("'"):
        first = first.also(lambda value: 1900 + value).also(lambda value: value % 100 + 2000)
    if AFTERNOON.match(after):
        first = first.also(lambda value: value + 12 if value <= 12 else value)
    if re.match(r"(?::00)? ?a\.? ?m\b", after) and first.values == {12}:
        first = _number(0)
    if _INDEX.search(f"{before}{run}") or (run == "00" and _MINUTES_FOLLOW.search(before)):
        first = replace(first, required=False)
    return [first, *(replace(number, required=number.values != {0}) for number in rest)]


def _scale(text: str, end: int, language: str) -> tuple[int, int]:
    """The product of the scale words at a position, and their end."""
    factor = 1
    while match := re.compile(r"[ -]?([^\W\d_]+)\b\.?").match(text, end):
        if not (scale := scales(language).get(match[1].lower())):
            break
        factor, end = factor * scale, match.end(1)
    return factor, end


def _scaled(number: Number, factor: int, after: str, language: str) -> Number:
    """A number with its scale; M and k may be one, or a unit."""
    if factor == 1 and (further := _RANGE.match(after)):  # 3 to 5 million
        scale, _ = _scale(after, further.end(), language)
        return number.also(lambda value: value * scale)
    if language == "fr" and re.match(r" milles\b", after):  # miles, or thousands
        return number.also(lambda value: value * 1000)
    if letter := re.match(r" ?([kKmM])(?:\b|[€$£])", after):
        return number.also(lambda value: value * _LETTER_SCALES[letter[1]])
    return replace(number, values=frozenset(value * factor for value in number.values))


def _number(value: Fraction | int) -> Number:
    return Number(frozenset((Fraction(value),)))


def _roman(word: str) -> frozenset[Fraction]:
    if not (match := _ROMAN.fullmatch(word)):
        return frozenset()
    return _number(10 * len(match[1]) + _ROMAN_UNITS.index(match[2])).values

"""Numbers in words: cardinals, ordinals, months, scales such as million, in three languages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Final

_BELOW_20: Final = {
    "en": "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen",
    "de": "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn "
    "fünfzehn sechzehn siebzehn achtzehn neunzehn",
    "fr": "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze "
    "seize dix-sept dix-huit dix-neuf",
}
_TENS: Final = {
    "en": "twenty thirty forty fifty sixty seventy eighty ninety",
    "de": "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    "fr": "vingt trente quarante cinquante soixante soixante-dix quatre-vingt quatre-vingt-dix",
}
_FROM_1: Final = {
    "en": "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth",
    "de": "erst zweit dritt viert fünft sechst siebt acht neunt zehnt elft zwölft",
    "fr": "premier deuxième troisième quatrième cinquième sixième septième huitième neuvième "
    "dixième onzième douzième",
}
_MONTHS: Final = {
    "en": "january february march april may june july august september october november december",
    "de": "januar februar märz april mai juni juli august september oktober november dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
}
_OTHERS: Final = {
    "en": "a=1 an=1 once=1 twice=2 double=2 both=2 half=1/2 thirds=2/3 quarters=3/4 noon=12 "
    "midday=12 midnight=0 dozen=12",
    "de": "ein=1 eine=1 einen=1 einem=1 einer=1 eines=1 zwo=2 beide=2 beiden=2 halb=1/2 halbe=1/2 "
    "halben=1/2 hälfte=1/2 anderthalb=3/2 drittel=2/3 viertel=3/4 mittag=12 "
    "mitternacht=0",
    "fr": "une=1 première=1 second=2 seconde=2 double=2 demi=1/2 demie=1/2 moitié=1/2 midi=12 "
    "minuit=0 cent=100 dizaine=10 douzaine=12",
}
_POWERS: Final = {
    "en": "1 decade decades 2 hundred hundreds 3 thousand thousands 6 million millions mn mln "
    "9 billion billions bn 12 trillion trillions tn",
    "de": "1 jahrzehnt jahrzehnte jahrzehnten 2 hundert 3 tausend tausende tsd 6 million millionen "
    "mio mill 9 milliarde milliarden mrd 12 billion billionen",
    "fr": "1 décennie décennies 2 centaine centaines 3 mille millier milliers 6 million "
    "millions 9 milliard milliards md mds mrd 12 billion billions",
}
"""Powers of ten, each before its words; the German and French billion is the English trillion."""
_COMPOUNDED: Final = (*_BELOW_20["de"].split()[2:], *_TENS["de"].split())
"""Words that begin German compounds: dreijährig, Achtelfinale, Vierziger."""
_HALF: Final = re.compile("(.+)(?:einhalb|-and-a-half)")
AFTERNOON: Final = re.compile(
    r" ?(?:[:.h] ?\d\d)? ?(?:p\.? ?m\b|(?:Uhr|h|heures|o'clock)?,? ?(?:am |in the |at |de l'|du )?"
    r"(?:Nachmittag|nachmittags|Abend|abends|nachts|afternoon|evening|night|après-midi|soir))"
)
"""What follows an hour from 1 to 12 that is one from 13 to 24."""


@cache
def scales(language: str) -> Mapping[str, int]:
    """Factors by word, such as million; a decade is one of years."""
    words, power = dict[str, int](), 0
    for word in _POWERS[language].split():
        if word.isdigit():
            power = int(word)
        else:
            words[word] = 10**power
    return words


@cache
def _dictionary(language: str) -> dict[str, set[Fraction]]:
    values: dict[str, set[Fraction]] = {}

    def add(number: int | Fraction, *words: str) -> None:
        for word in words:
            values.setdefault(word, set()).add(Fraction(number))

    units = _BELOW_20[language].split()
    for number, word in enumerate(units):
        add(number, word)
    for ten, word in enumerate(_TENS[language].split(), start=2):
        stem = word.removesuffix("e")
        add(10 * ten, word, f"{word[:-1]}ies", f"{word[:-1]}ieth", f"{stem}aine", f"{stem}ième")
        for unit in range(1, 20):
            joined = f"{'ein' if unit == 1 else units[unit]}und{word}"
            add(10 * ten + unit, joined if language == "de" else f"{word}-{units[unit]}")
    for number, word in enumerate(_FROM_1[language].split(), start=1):
        add(number, word, *(word + ending for ending in ("s", "e", "er", "en", "es", "em")))
    for number, word in enumerate(_MONTHS[language].split(), start=1):
        add(number, word, f"{word}s", word[:3], word[:4])
    for word, factor in scales(language).items():
        add(factor, word)
    for pair in _OTHERS[language].split():
        word, _, value = pair.partition("=")
        for hour_or_value in (0, 12, 24) if value == "0" else (Fraction(value),):
            add(hour_or_value, word)
    return values


def spelled(number: int, language: str) -> str:
    """A number from 13 to 99 in words."""
    units = _BELOW_20[language].split()
    if number < 20:
        return units[number]
    tens, unit = divmod(number, 10)
    if language == "fr" and tens in (7, 9):  # soixante-dix-sept, quatre-vingt-dix-sept
        tens, unit = tens - 1, unit + 10
    word = _TENS[language].split()[tens - 2]
    if not unit:
        return "quatre-vingts" if word == "quatre-vingt" else word
    if language == "de":
        return f"{'ein' if unit == 1 else units[unit]}und{word}"
    if language == "fr" and unit in (1, 11) and word != "quatre-vingt":
        return f"{word} et {units[unit]}"
    return f"{word}-{units[unit]}"


def in_digits(text: str, language: str) -> str:
    """A text with the numbers from 13 to 99 that are single words of it in digits."""
    return _spelled_numbers(language).sub(
        lambda words: str(_values_of_words(language)[words[0].lower()]), text
    )


@cache
def _values_of_words(language: str) -> Mapping[str, int]:
    words = {spelled(number, language): number for number in range(13, 100)}
    return words | {word.replace("-", " "): number for word, number in words.items()}


@cache
def _spelled_numbers(language: str) -> re.Pattern[str]:
    longest_first = sorted(_values_of_words(language), key=len, reverse=True)
    after_hundred = r"(?<!hundred )(?<!hundred and )(?<!cent )(?<!cents )(?<![\w-])"
    return re.compile(rf"{after_hundred}(?:{'|'.join(longest_first)})(?![\w-])", re.IGNORECASE)


@cache
def number_words(word: str, language: str) -> frozenset[Fraction]:
    """The values that a word or a part of it may have; none for most words."""
    values, word = _dictionary(language), word.lower()
    if word in values:
        return frozenset(values[word])
    if (half := _HALF.fullmatch(word)) and (whole := values.get(half[1])):
        return frozenset(number + Fraction(1, 2) for number in whole)
    parts = re.split("[-']", word)
    numbers = set[Fraction]().union(*(values.get(part, set()) for part in parts))
    if language == "de":
        numbers |= {
            number
            for part in parts
            for start in _COMPOUNDED
            if part.startswith(start)
            for number in values[start]
        }
    return frozenset(numbers)

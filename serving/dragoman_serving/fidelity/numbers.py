# ruff: noqa: RUF001  the spaces and apostrophes of several languages
"""Compares the numbers of a text and of its translation, by value.

Languages write them differently: 1,000.5 is 1.000,5 in German and 1 000,5 in French, and 2:30 p.m.
is 14:30. A number that can be read in several ways has several values; two numbers are equal if
they have one in common. So few errors are overlooked, and hardly a right translation is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from dragoman_serving.fidelity.measures import SYMBOLS

_SPACES = "[ \u00a0\u202f\u2009'’]"
_SCALES = {
    "de": "2 Hundert Hundert|3 Tausend Tausend|6 Million Millionen Mio|9 Milliarde Milliarden Mrd"
    "|12 Billion Billionen",
    "en": "2 hundred hundred hundreds|3 thousand thousand thousands|6 million million millions mn"
    "|9 billion billion billions bn|12 trillion trillion trillions tn",
    "fr": "2 centaine centaines|3 mille mille|6 million millions|9 milliard milliards Md"
    "|12 billion billions",
    "it": "3 mila mila|6 milione milioni|9 miliardo miliardi",
    "nl": "3 duizend duizend|6 miljoen miljoen|9 miljard miljard",
}
"""Powers of ten, each with its words after 1, after other numbers, and further ones.

Source: Unicode CLDR 46, `numbers/decimalFormats-long`"""
_SCALE_WORDS = {
    language: {int(power): words for power, *words in map(str.split, scales.split("|"))}
    for language, scales in _SCALES.items()
}
_DIGITS = (
    r"(?:(?<!\d)\d{1,2}\s?h\s?\d{2}(?!\d)"  # French times
    rf"|\d{{1,3}}(?:{_SPACES}\d{{3}})+(?:[.,]\d+)?(?!\d)|\d+(?:[.,:/]\d+)*+)"
)
_BEHIND = (
    r"(?=(?P<half_day>(?i:\s?(?:[ap]\.? ?m\b|(?:Uhr|heures)\b|h\b)))"
    r"|(?P<decade>['’]?(?:s|er)\b)|(?P<miles>\smilles\b)|)"
)
"""A half of the day, as in `2 p.m.`, the end of a decade, as in `the 90s`, or French miles, which
some write for thousands."""
_OF_THOUSANDS = 3
_WORDS_OF_SCALES = {"": "(?!)"} | {
    language: "|".join(sorted({word for words in powers.values() for word in words}, reverse=True))
    for language, powers in _SCALE_WORDS.items()
}
_BEHIND_DIGITS = re.compile(
    rf"[^\W\d_]{{0,3}}(?:[\s-]?(?i:{'|'.join(_WORDS_OF_SCALES.values())}|mr)){{0,2}}(?!\w)"
    r"(?:\.(?=\s*\S)(?:(?<=Mio\.)|(?<=Mrd\.)))?"
)
_MINUS = "-−–"
_MINUS_IN_WORDS = re.compile(r"(?i:(?<!\w)(?:minus|moins|negative)\s)$")
_LONGEST_MINUS = 10
_NUMBER = {
    language: re.compile(
        rf"(?P<minus>(?<![^\s(\[=:])(?<!\d\s)[{_MINUS}])?{_DIGITS}"
        rf"(?:[\s-]?(?P<scale>(?i:{words}))\b(?P<again>\s(?i:{words})\b)?)?{_BEHIND}"
    )
    for language, words in _WORDS_OF_SCALES.items()
}
"""Patterns of numbers by language: also a minus sign, a power of ten in words, which a model may
repeat, and what follows."""
_BEFORE_SCALE = re.compile(r"(?:[\s-]|(?<=\d))(?=[^\W\d]+$)")
_SPACE = re.compile(_SPACES)
_DIGIT = re.compile(r"\d")
_SEPARATOR = re.compile(r"[.,:/]")
_GROUPED = re.compile(r"\d{1,3}(?:([.,])\d{3})(?:\1\d{3})*")
"""Thousands with a separator, which is the decimal point of other languages."""
_SEPARATED = re.compile(rf"\d(?:[.,]|{_SPACES}(?=\d{{3}}))\d")
_NAMES_OF_SIGNS = {
    "$": "dollar",
    "€": "euro",
    "£": "pound|pfund|livre",
    "¥": "yen",
    "%": r"per\s?cent|prozent|pour\s?cent",
}
_SIGN_OR_NAME = {
    sign: re.compile(rf"{re.escape(sign)}|(?i:{names})") for sign, names in _NAMES_OF_SIGNS.items()
}
_OF_WEIGHT = "£"
"""A pound may also be a weight, so that its name does not stand for the sign."""
_BEFORE_NAME = re.compile("[ \u00a0\u202f-]?")
ANY_SIGN = "¤"
"""Stands for a currency or a unit that a model does not read."""
AMOUNT_SIGNS = (*_NAMES_OF_SIGNS, *"₹₽₩₺", ANY_SIGN)
"""Signs of currencies, and per cent."""
_UNIT = re.compile(
    r"[ \u00a0\u202f-]?(?:[%‰℃℉Ω]|°[CFK]?"
    rf"|(?:{SYMBOLS}|[µn]?m|[kdc]?m[²³]|µ?g|µs|h?l|L|Wh|Hz|[kMGT]o|kcal|kJ|s)\b"
    rf"|(?i:{'|'.join(_WORDS_OF_SCALES.values())}|dollars?|euros?|pounds?|pfund|livres?|percent"
    r"|per\scent|prozent|pour\scent|hours?|stunden?|heures?|days?|tagen?|jours?|years?|jahren?|ans?"
    r"|weeks?|wochen?|semaines?|months?|monaten?|mois|minuten?|minutes?|times|fois|mal|miles?"
    r"|meilen?|milles?|inch(?:es)?|zoll|pouces?|degrees|grad|degrés|points|punkten?|ton(?:s|nes?|nen)"
    r"|(?:kilo|[cz]enti|milli)?(?:m[eè]t(?:ers?|res?|ern)|gram(?:s|m|mes?|mm)?|lit(?:ers?|res?|ern)))\b)"
)
"""A unit, the name of a currency, per cent or a power of ten after a number."""
_AMOUNT = re.compile(r"(\d+[.,]\d+)(\D+)")
_RANGE = re.compile("[-–]")
_FURTHER = re.compile(r"(?:[ \u00a0\u202f]?[x×–-][ \u00a0\u202f]?\d+(?:[.,]\d+)*){1,2}")
"""What is between a number and the unit that it has in common with others."""
_HALF_DAY = 12
_MOST_OF_RANGE = 4
"""Digits of each limit of a range; longer ones are codes."""
_HOURS = re.compile(r"\s?h\s?")
_NAMES = {
    "de": "(ein(?:e[mnrs]?|s)?|erste[mnrs]?)|(zwei|zweite[mnrs]?)|(drei|dritte[mnrs]?)"
    "|(vier|vierte[mnrs]?)|(fünf|fünfte[mnrs]?)|(sechs|sechste[mnrs]?)|(sieben|sieb(?:en)?te[mnrs]?)"
    "|(acht|achte[mnrs]?)|(neun|neunte[mnrs]?)|(zehn|zehnte[mnrs]?)|(elf|elfte[mnrs]?)"
    "|(zwölf|zwölfte[mnrs]?)",
    "en": "(one|first)|(two|second)|(three|third)|(four|fourth)|(five|fifth)|(six|sixth)"
    "|(seven|seventh)|(eight|eighth)|(nine|ninth)|(ten|tenth)|(eleven|eleventh)|(twelve|twelfth)",
    "es": "(un[oa]?)|(dos)|(tres)|(cuatro)|(cinco)|(seis)|(siete)|(ocho)|(nueve)|(diez)|(once)"
    "|(doce)",
    "fr": "(une?|premi[eè]re?s?)|(deux|deuxième|seconde?)|(trois|troisième)|(quatre|quatrième)"
    "|(cinq|cinquième)|(six|sixième)|(sept|septième)|(huit|huitième)|(neuf|neuvième)|(dix|dixième)"
    "|(onze|onzième)|(douze|douzième)",
    "it": "(un[oa]?)|(due)|(tre)|(quattro)|(cinque)|(sei)|(sette)|(otto)|(nove)|(dieci)|(undici)"
    "|(dodici)",
    "nl": "(een|één|eerste)|(twee|tweede)|(drie|derde)|(vier|vierde)|(vijf|vijfde)|(zes|zesde)"
    "|(zeven|zevende)|(acht|achtste)|(negen|negende)|(tien|tiende)|(elf|elfde)"
    "|(twaalf|twaalfde)",
    "pt": "(uma?)|(dois|duas)|(três)|(quatro)|(cinco)|(seis)|(sete)|(oito)|(nove)|(dez)|(onze)"
    "|(doze)",
}
"""The numbers up to twelve as words; each is a group."""
_WORDS = {
    language: re.compile(rf"\b(?:{names})\b", re.IGNORECASE) for language, names in _NAMES.items()
}
_MOST_PARTS = 64
"""Of more numbers, parts of dates are not looked for."""
_POINT_AND_GROUP = {"en": (".", ",")} | {
    language: (",", group)
    for languages, group in (
        ("da de el es id it nl pt ro sl sr tr", "."),
        ("bg cs et fi fr hr hu lt lv nb no pl ru sk sv uk", "\u00a0"),
    )
    for language in languages.split()
}
"""Decimal point and separator of thousands by language.

Source: Unicode CLDR 46, `numbers/symbols`."""
_LENIENT = frozenset(("fr",))
"""Languages whose writers often separate thousands as in English."""

_MOST_CHARACTERS = 64
"""A longer number, which Python may refuse to convert, only equals itself."""

Value = int | Decimal | tuple[int, ...] | str


class Number(NamedTuple):
    """A number in a text: its span, how it is written (`14 h 30` as `14:30`), and its values."""

    begin: int
    end: int
    text: str
    values: frozenset[Value]


class Difference(NamedTuple):
    """Numbers of a text that its translation lacks, and those that only the translation has."""

    missing: list[Number]
    additional: list[Number]


def has_digits(text: str) -> bool:
    """Whether a text has digits, also superscripts and the like."""
    # The expression, which knows only decimal digits, takes a tenth of the time.
    if _DIGIT.search(text) is not None:
        return True
    return not text.isascii() and any(map(str.isdigit, text))


def numbers_of(
    text: str, language: str = "", other: str = "", *, is_target: bool = False
) -> list[Number]:
    """Returns the numbers that are written in digits; a range, such as `2-11`, is one.

    Args:
        text: a text.
        language: its language. A power of ten in words, as in `27 billion`, is part of a number.
        other: another language, which must have a word for the power too.
        is_target: whether the text is a translation.
    """
    if not has_digits(text):
        return []
    powers = _powers(language, other)
    pattern = _NUMBER[language if powers else ""]
    marks = _POINT_AND_GROUP.get(language, ("", ""))
    if language in _LENIENT and not is_target:
        marks = ("", "")
    numbers: list[Number] = []
    for match in pattern.finditer(text):
        number = _number(match, powers, marks)
        if numbers and (limits := _joined(text, numbers[-1], number)):
            numbers[-1] = limits
        else:
            numbers.append(number)
    return numbers


def _joined(text: str, first: Number, last: Number) -> Number | None:
    """A range, if two numbers with a dash between them are one."""
    if _RANGE.fullmatch(text, first.end, last.begin) is None:
        return None
    limits = [*first.values, *last.values]
    is_plain = first.text.isdigit() and last.text.isdigit() and len(limits) == 2
    if not is_plain or max(len(first.text), len(last.text)) > _MOST_OF_RANGE:
        return None
    both = tuple(map(int, (first.text, last.text)))
    return Number(first.begin, last.end, text[first.begin : last.end], frozenset({both}))


def _number(match: re.Match[str], powers: Mapping[str, int], marks: tuple[str, str]) -> Number:
    (begin, end), written, behind = match.span(), match[0], match.lastgroup
    power = 0
    if scale := match["scale"]:
        power = powers.get(scale.casefold(), 0)
        digits = written[: match.start("scale") - begin].rstrip().rstrip("-")
        end = end if power else begin + len(digits)
    else:
        digits = written
    if len(digits) > _MOST_CHARACTERS:
        return Number(begin, end, digits, frozenset({digits}))
    if not digits.isdigit():
        digits = _HOURS.sub(":", digits)
    values = _values(digits.lstrip(_MINUS), behind == "half_day", behind == "decade", marks)
    if behind == "miles":
        values |= frozenset(_scaled(values, _OF_THOUSANDS))
    before = match.string[max(0, begin - _LONGEST_MINUS) : begin]
    if match["minus"]:
        values = frozenset(_negative(values)) or values
    elif _MINUS_IN_WORDS.search(before):
        values |= frozenset(_negative(values))
    if not power:
        return Number(begin, end, digits, values)
    if match["again"]:
        return Number(begin, end, written, frozenset())
    return Number(begin, end, written, frozenset(_scaled(values, power)) or values)


def _negative(values: Iterable[Value]) -> Iterator[Value]:
    """Yields the values of a number with a minus sign, which is no date or the like."""
    return (-value for value in values if isinstance(value, int | Decimal))


def _scaled(values: Iterable[Value], power: int) -> Iterator[Value]:
    """Yields the values of a number that stands before a power of ten."""
    for value in values:
        if isinstance(value, int):
            yield value * 10**power
        elif isinstance(value, Decimal):
            yield (value * 10**power).normalize()


@lru_cache(maxsize=256)
def _powers(language: str, other: str) -> Mapping[str, int]:
    """The powers of ten of a language's words, as far as the other language has words for them."""
    of_other = _SCALE_WORDS.get(other, {})
    return {
        word.casefold(): power
        for power, words in _SCALE_WORDS.get(language, {}).items()
        for word in words
        if power in of_other
    }


def difference(source: str, target: str, languages: tuple[str, str]) -> Difference:
    """Compare the numbers of a text with those of its translation.

    Args:
        source: a text.
        target: its translation.
        languages: of the text and of the translation, in which numbers up to twelve may be words.
    """
    required = numbers_of(source, *languages)
    target_numbers = numbers_of(target, languages[1], languages[0], is_target=True)
    copied = {number.text: number.values for number in required}
    target_numbers = [
        number._replace(values=number.values | copied.get(number.text, set()))
        for number in target_numbers
    ]
    by_value: dict[Value, list[int]] = {}
    for index in reversed(range(len(target_numbers))):
        for value in target_numbers[index].values:
            by_value.setdefault(value, []).append(index)
    missing: list[Number] = []
    used: set[int] = set()
    for number in required:
        for value in number.values:
            places = by_value.get(value, [])
            while places and places[-1] in used:
                places.pop()
            if places:
                used.add(places.pop())
                break
        else:
            missing.append(number)
    remaining = [number for index, number in enumerate(target_numbers) if index not in used]
    if missing and (words := _WORDS.get(languages[1])):
        missing = list(_not_in_words(missing, target, words))
    if remaining and (words := _WORDS.get(languages[0])):
        remaining = list(_not_in_words(remaining, source, words))
    if missing and len(remaining) <= _MOST_PARTS:
        missing = [number for number in missing if not _took_parts(number, remaining)]
    if remaining and len(missing) <= _MOST_PARTS:
        remaining = [number for number in remaining if not _took_parts(number, missing)]
    return Difference(missing, remaining)


def localized(number: str, source: str, target: str) -> str:
    """Returns a number of one language in the spelling of another, if it has just one meaning."""
    if source == target or not {source, target} <= _POINT_AND_GROUP.keys():
        return number
    if number[0] in _MINUS:
        return number[0] + localized(number[1:], source, target)
    *digits, scale = _BEFORE_SCALE.split(number)
    if digits and (power := _powers(source, target).get(scale.casefold())):
        singular, plural, *_ = _SCALE_WORDS[target][power]
        scale = singular if digits[0] == "1" else plural
        return f"{_localized(digits[0], source, target)} {scale}"
    return _localized(number, source, target)


def end_of_scale(text: str, end: int) -> int:
    """Returns the end of what a translation has behind a number for a power of ten, as `bn`."""
    match = _BEHIND_DIGITS.match(text, end)
    return match.end() if match else end


def _localized(number: str, source: str, target: str) -> str:
    point, group = _POINT_AND_GROUP[source]
    whole, *fraction = number.split(point)
    if len(fraction) > 1 or (fraction and not fraction[0].isdigit()):
        return number
    groups = _SPACE.sub("\u00a0", whole).split(group)
    is_grouped = len(groups) > 1 and all(len(digits) == 3 for digits in groups[1:])
    if not all(map(str.isdigit, groups)) or (len(groups) > 1 and not is_grouped):
        return number
    if not is_grouped and not fraction:
        return number
    new_point, new_group = _POINT_AND_GROUP[target]
    return new_group.join(groups) + (new_point + fraction[0] if fraction else "")


def respelled(
    source: str, target: str, source_language: str, target_language: str
) -> Iterator[tuple[int, int, str]]:
    """Yields what to change in a translation so that its numbers have its language's spelling.

    `26,750` is another number in German, and so is `5.277`. Other fractions, such as `3.5`, may be
    versions or sections, so only amounts are changed: `3.5 kg`. Only spellings of the source are
    changed.

    Args:
        source: a text.
        target: its translation.
        source_language: language of the text.
        target_language: language of the translation.
    """
    point, group = _POINT_AND_GROUP.get(source_language, ("", ""))
    if not group or not _SEPARATED.search(source):
        return
    if source_language in _LENIENT:
        yield from _as_copied(source, target, point)
    written = {number.text for number in numbers_of(source)}
    large = {
        number
        for number in written
        if group in _SPACE.sub("\u00a0", number)
        or (source_language not in _LENIENT and _GROUPED.fullmatch(number))
    }
    for number in numbers_of(target):
        if number.text in large or (number.text in written and _is_amount(target, number)):
            spelled = localized(number.text, source_language, target_language)
            if spelled != number.text:
                yield number.begin, number.end, spelled


def is_measure(text: str) -> bool:
    """Whether a text is the sign of a currency, or a unit."""
    return text in AMOUNT_SIGNS or _UNIT.fullmatch(text) is not None


def localized_amount(text: str, source: str, target: str) -> str | None:
    """Returns an amount, as `12.5°C`, in the spelling of another language; None: it is none."""
    if (amount := _AMOUNT.fullmatch(text)) and is_measure(amount[2]):
        return localized(amount[1], source, target) + amount[2]
    return None


def lost_signs(
    source: str, target: str, source_language: str, target_language: str
) -> Iterator[tuple[int, int, str]]:
    """Yields what to change in a translation so that amounts have their currencies and per cent.

    Arguments: see `respelled`. A sign's name is as good as the sign.
    """
    for sign, pattern in _SIGN_OR_NAME.items():
        is_weight = sign == _OF_WEIGHT
        required = source.count(sign) if is_weight else len(pattern.findall(source))
        lost = required - len(pattern.findall(target)) if required else 0
        if lost <= 0:
            continue
        copied = {number.text for number in numbers_of(source)}
        numbers = [
            number
            for number in numbers_of(target, target_language, source_language, is_target=True)
            if not _has_sign(target, number)
        ]
        for amount in numbers_of(source, source_language, target_language):
            has_name = not is_weight and _has_name(source, amount, pattern)
            if not has_name and not _has_sign(source, amount, (sign,)):
                continue
            same = (number for number in numbers if not number.values.isdisjoint(amount.values))
            if lost and (number := next(same, None)):
                lost -= 1
                numbers.remove(number)
                digits = _BEFORE_SCALE.split(target[number.begin : number.end])[0]
                scale = target[number.begin + len(digits) : number.end]
                if digits in copied:
                    digits = localized(digits, source_language, target_language)
                is_close = _POINT_AND_GROUP.get(target_language, ("",))[0] == "."
                is_close = is_close or target[number.end : number.end + 1].isalpha()
                if sign == "%":
                    written = f"{digits}{'' if is_close else ' '}{sign}{scale}"
                else:
                    written = f"{sign}{digits}{scale}" if is_close else f"{digits}{scale} {sign}"
                yield number.begin, number.end, written


def _is_amount(text: str, number: Number) -> bool:
    """Whether a number has a currency, a unit, per cent or a power of ten.

    It may be the unit of another number, as in `2.5 x 3.5 cm`.
    """
    others = _FURTHER.match(text, number.end)
    end = others.end() if others else number.end
    return _has_sign(text, number) or _UNIT.match(text, end) is not None


def _has_sign(text: str, number: Number, signs: tuple[str, ...] = AMOUNT_SIGNS) -> bool:
    """Whether a sign is before or after a number, perhaps with a space between."""
    before = text[max(number.begin - 2, 0) : number.begin].rstrip()
    return before.endswith(signs) or text[number.end : number.end + 2].lstrip().startswith(signs)


def _has_name(text: str, number: Number, pattern: re.Pattern[str]) -> bool:
    """Whether the name of a sign is after a number, perhaps with a space between."""
    space = _BEFORE_NAME.match(text, number.end)
    return space is not None and pattern.match(text, space.end()) is not None


def _as_copied(source: str, target: str, point: str) -> Iterator[tuple[int, int, str]]:
    """Yields what to change so that `1,967` and `3.698` of one text are written alike.

    Such a number may be a large one, or one with a decimal point. A copied one decides.
    """
    unclear = {number.text for number in numbers_of(source) if _GROUPED.fullmatch(number.text)}
    numbers = numbers_of(target)
    if not unclear.isdisjoint(number.text for number in numbers):
        for number in numbers:
            written = _SEPARATOR.sub(point, number.text)
            if written in unclear and written != number.text:
                yield number.begin, number.end, written


def _took_parts(number: Number, remaining: list[Number]) -> bool:
    """Whether the parts of a date or the like are numbers of their own, which are then removed."""
    for value in number.values:
        if not isinstance(value, tuple):
            continue
        parts = [
            next((other for other in remaining if part in other.values), None) for part in value
        ]
        if None not in parts and len({*map(id, parts)}) == len(parts):
            remaining[:] = [other for other in remaining if other not in parts]
            return True
    return False


def _not_in_words(numbers: Sequence[Number], text: str, words: re.Pattern[str]) -> Iterator[Number]:
    remaining: Counter[Value] = Counter(match.lastindex or 0 for match in words.finditer(text))
    for number in numbers:
        value = next((meaning for meaning in number.values if remaining.get(meaning, 0) > 0), None)
        if value is None:
            yield number
        else:
            remaining[value] -= 1


@lru_cache(maxsize=4096)
def _values(
    number: str, is_half_day: bool, is_decade: bool, marks: tuple[str, str]
) -> frozenset[Value]:
    """What a number may mean, also by the word behind it: `p.m.` and the like, or a decade's.

    `marks` are the decimal point and the separator of thousands; empty: unknown.
    """
    parts = _SEPARATOR.split(_SPACE.sub("", number))
    separators = {*_SEPARATOR.findall(number)}
    digits = tuple(map(int, parts))
    values: set[Value] = set()
    is_short = max(map(len, parts)) <= 2
    is_one_kind = len(separators) == 1
    grouped = _GROUPED.fullmatch(number)
    point, group = marks
    is_decimal = grouped and grouped[1] == point and len(parts) == 2 and parts[1] != "000"
    is_whole = grouped and (grouped[1] == group or parts[1] == "000")
    is_date = len(parts) > 2 and not grouped
    if separators & {*":/"} or (is_one_kind and (is_date or is_short)):
        values.add(digits)
    if is_one_kind and separators <= {*".,"} and _are_groups(parts) and not is_decimal:
        values.add(int("".join(parts)))
    if separators <= {*".,"} and separators and not is_whole:
        is_mixed = len(separators) == 2 and number.count(number[-len(parts[-1]) - 1]) == 1
        if len(parts) == 2 or (is_mixed and _are_groups(parts[:-1])):
            values.add(Decimal(f"{''.join(parts[:-1])}.{parts[-1]}").normalize())
    if not separators:
        values.add(digits[0])
        if is_decade and digits[0] % 10 == 0:
            values.add(digits[0] % 100)
    if is_half_day and len(parts) <= 2:
        hours, *minutes = digits
        minute = minutes[0] if minutes else 0
        values |= set() if minute else {hours}
        for hour in (hours, (hours + 12) % 24) if hours <= _HALF_DAY else (hours,):
            values.add((hour, minute))
    return frozenset(values or {digits})


def _are_groups(parts: Sequence[str]) -> bool:
    first, *others = parts
    return len(first) <= 3 and all(len(part) == 3 for part in others)

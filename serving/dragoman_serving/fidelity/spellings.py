# ruff: noqa: RUF001  the apostrophes and dashes of several languages
"""Finds Roman numbers, and what models read better in another spelling: `15e siècle` for `XVe`.

Another spelling is part of the sentence that the model reads, and translated like any other words.
A Roman number by itself, as in `Chapter I`, would be read as the pronoun.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from operator import attrgetter
from typing import NamedTuple

from dragoman_serving.fidelity.letter_case import with_capital
from dragoman_serving.fidelity.literals import Literal, meets_any
from dragoman_serving.fidelity.messages import doubled_apostrophes
from dragoman_serving.fidelity.names import LISTS
from dragoman_serving.fidelity.number_words import VALUES, number_words
from dragoman_serving.fidelity.numbers import AMOUNT_SIGNS
from dragoman_serving.fidelity.phrases import months

_ENDINGS = {
    "de": r"\.(?= Jahrhundert| Jh)",
    "en": "st|nd|rd|th",
    "fr": "er|e|ère|i?[eè]me|ᵉ|ᵉʳ",
}
_ROMAN_NUMBER = {
    language: re.compile(
        r"(?<![\w.'’-])(?=[IVX])(?P<roman>X{0,3}(?:IX|IV|V?I{0,3}))"
        rf"(?P<ending>{ending})?(?![\w'’])"
    )
    for language, ending in _ENDINGS.items()
}
_VALUES = {"I": 1, "V": 5, "X": 10}
_NUMBERED = re.compile(
    r"(?i)act|article|book|chapter|class|diabetes|grade|level|part|phase|scene|section|stage|title"
    r"|type|volume|abschnitt|akt|anhang|annex|artikel|band|buch|kapitel|klasse|stufe|szene|teil|typ"
    r"|acte|annexe|appendix|chapitre|livre|partie|scène|tome|titre|charles|edward|elizabeth|francis"
    r"|frederick|george|henry|james|louis|napoleon|nicholas|philip|richard|william"
)
"""Words before a Roman number of one letter, and rulers."""
_BEFORE = re.compile(r"(?<!\w)[^\W\d_]{2,20}(?= $)")
_LONGEST_BEFORE = 22
_RULER = re.compile(r"[^\W\d_a-z]\w{3}")
_NO_INITIAL = re.compile(r"(?!\.? ?[A-Z])")
_ENDS = re.compile(r"[,;:)]|\.?$| (?:and|of|or|to)\b")
_GERMAN_POINT = re.compile(r"\.(?= [a-zß-ÿ])")
_WAR = re.compile(
    r"(?<!\w)(?P<determiner>(?:an?|the|this|our|[Pp](?:re|ost)-?)[ -])?"
    r"(?P<war>(?:World War |WW-?)(?P<number>II?|One|Two|[12]))(?![\w.-]\w|\w)"
)
_AMOUNT = re.compile(
    r"(?:[$€£¥] ?|(?<![\w.,])(?=[\d.,]+ ?(?:bn|tn)))"
    r"(?P<amount>\d+(?:[.,]\d+)* ?(?P<scale>[kKmM]|[mMbBtT][nN]|[bB]))(?!\w)"
)
_SCALES = {"k": "thousand", "m": "million", "b": "billion", "t": "trillion"}
_TIME = re.compile(
    r"(?<![\w.,:/$€£-])"
    r"(?:(?P<first>1[0-2]|0?[1-9])(?:[:.](?P<minutes>[0-5]\d))?[ \u00a0\u202f]?"
    r"(?:(?P<part>[aApP])\.?[mM]\.?)? ?[-–] ?)?"
    r"(?P<hour>1[0-2]|0?[1-9])(?:[:.](?P<minute>[0-5]\d))?[ \u00a0\u202f]?"
    r"(?P<half>[aApP])(?:[mM]|\.[mM](?:\.(?=\W* [a-z0-9(]))?)(?!\w)"
)
"""A time with a half of the day, or two of the same day: `9:30am-5pm`."""
_HALF_DAY = 12
_HOURS = {
    "de": "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    "en": "one two three four five six seven eight nine ten eleven twelve",
    "fr": "une deux trois quatre cinq six sept huit neuf dix onze midi",
}
_CLOCK_TIME = {
    language: re.compile(rf"(?<!\w){form.format(_HOURS[language].replace(' ', '|'))}(?!\w)")
    for language, form in {
        "de": r"(?:(?P<half>halb)"
        r"|(?:ein )?(?P<minutes>Viertel|fünf|zehn|zwanzig) (?:nach|(?P<to>vor)))"
        r" (?P<hour>{})(?: Uhr)?",
        "en": r"(?:(?P<half>[Hh]alf)|(?:[Aa] )?(?P<minutes>(?i:quarter|five|ten|twenty(?:-five)?)))"
        r" (?:past|(?P<to>to)) (?P<hour>{})",
        "fr": r"(?P<hour>{})(?: heures?)? (?:(?P<half>et demie?)"
        r"|(?:(?P<to>moins)|et)? ?(?:le )?(?P<minutes>quart|cinq|dix|vingt(?:-cinq)?))(?! minutes)",
    }.items()
}
"""Times in words, of which `halb drei` is 2:30."""
_QUARTERS = ("quarter", "Viertel", "quart")
_AT = re.compile(
    r"(?:(?<=\b[Aa]t )|(?<=\b[Bb]y )|(?<=\bis )|(?<=t's )|(?<=\buntil )|(?<=\babout )"
    r"|(?<=\baround )|(?<=\b[Uu]m )|(?<=\bist )|(?<=\bbis )|(?<=\bgegen )|(?<=\b[Àà] )|(?<=\best )"
    r"|(?<=\bvers ))"
)
"""What is before a time in words that may be other numbers: `fünf vor zwölf`."""


def _decades(words: str, ending: str) -> dict[str, int]:
    return {f"{word}{ending}": 10 * ten for ten, word in enumerate(words.split(), start=2)}


_DAY_NAMES = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
_DAYS = {day[:3]: day for day in _DAY_NAMES.split()}
_RANGE_OF_DAYS = re.compile(
    rf"(?<!\w)({'|'.join(_DAYS)})\.? ?[-–] ?({'|'.join(_DAYS)})(?:\.(?= \S))?(?!\w)"
)
_SLOTS: dict[str, dict[str, dict[str, int]]] = {
    "de": {
        "part": {"Fünftel": 5, "Sechstel": 6, "Achtel": 8, "Zehntel": 10},
        "decade": _decades("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig", "er"),
    },
    "en": {
        "part": {"fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10},
        "decade": _decades("twent thirt fort fift sixt sevent eight ninet", "ies"),
    },
    "fr": {
        "part": {"cinquième": 5, "sixième": 6, "huitième": 8, "dixième": 10},
        "group": {"dizaine": 10, "douzaine": 12, "quinzaine": 15, "vingtaine": 20, "trentaine": 30}
        | {"quarantaine": 40, "cinquantaine": 50, "soixantaine": 60, "centaine": 100},
    },
}
"""Values of words, by language and by their slot in expressions of spellings.txt."""
_VALUES_OF_SLOTS = {
    language: {
        word.lower(): value
        for words in (VALUES[language], *slots.values())
        for word, value in words.items()
    }
    for language, slots in _SLOTS.items()
}
_FELL = "declined decreased dipped dropped plummeted plunged shrank slid slumped tumbled"
_VERBS = {
    "en": {
        "fell": _FELL.split(),
        "fallen": _FELL.replace("shrank", "shrunk").split(),
        "rose": ["rose", "soared", "surged"],
    },
    "de": {
        "fallen": ["abgenommen", "gesunken", "geschrumpft", "zurückgegangen"],
        "reduced": ["gekürzt", "gesenkt"],
    },
}
"""Verbs of changes, likewise."""
_BEFORE_CHANGED = "Prozent % Euro Millionen Milliarden leicht Leicht stark deutlich wurde wurden"
_EXPRESSIONS: dict[str, dict[str, str]] = {
    "de": {
        "change": rf"(?= (?:(?:\w+ ){{0,3}}?(?:um|auf|von|unter) (?:\w+ )?\d"
        rf"|(?:im (?:{'|'.join(months('de'))})|leicht|stark|deutlich|weiter)(?!\w)))",
        "changed": f"(?:{'|'.join(f'(?<={word} )' for word in _BEFORE_CHANGED.split())})",
        "unit": "(?:Prozent|%|Euro|Dollar|Punkte|Millionen|Milliarden)",
    },
    "en": {
        "change": r"(?= (?:(?:by|from|to) (?:(?:about|around|nearly|almost|over|more than|an?) )?"
        r"(?:[€$£]?\d|third|quarter|half|record)"
        r"|(?:(?:about|around|nearly|almost|over|more than) )?\d[\d.,]*(?:%| per ?cent| points)"
        r"|(?:last|this) (?:year|month|quarter)"
        r"|(?:in|since|during) (?:\d|[A-Z])"
        r"|(?:sharply|slightly|steadily|significantly|dramatically|rapidly|further)(?!\w)))",
    },
    "fr": {
        "change": rf"(?= (?:(?:de|à) (?:(?:près|plus|moins) de )?\d"
        rf"|(?:en (?:\d|{'|'.join(months('fr'))})|fortement|légèrement|nettement|encore)(?!\w)))",
    },
}
"""Parts of expressions. A verb means the change of an amount before some words only: `rose by 5
percent`, not `rose early`."""


def with_spellings(
    text: str,
    language: str,
    literals: Sequence[Literal],
    fixed: Sequence[Literal],
    target: str = "",
) -> list[Literal]:
    """Returns literals in order, with those of `spellings`, which replace usual ones within them.

    Args:
        text: a text.
        language: its language.
        literals: its other literals, in order and without overlaps.
        fixed: further parts that are read as they are, likewise.
        target: language of its translation.
    """
    read = spellings(text, language, target)
    apostrophes = (
        Literal(*span, read="'") for span in doubled_apostrophes(text) if not meets_any(read, *span)
    )
    parts = [
        part
        for part in sorted((*read, *apostrophes), key=attrgetter("span"))
        if not meets_any(fixed, *part.span) and _may_replace(text, part, literals)
    ]
    others = [literal for literal in literals if not meets_any(parts, *literal.span)]
    return sorted([*others, *parts], key=attrgetter("span")) if parts else others


def _may_replace(text: str, part: Literal, literals: Sequence[Literal]) -> bool:
    first = bisect_right(literals, part.begin, key=attrgetter("end"))
    end = bisect_left(literals, part.end, key=attrgetter("begin"))
    return all(
        (literal.is_usual or text[slice(*literal.span)] in AMOUNT_SIGNS)
        and part.begin <= literal.begin
        and literal.end <= part.end
        for literal in literals[first:end]
    )


def spellings(text: str, language: str, target: str = "") -> list[Literal]:
    """Returns Roman numbers and parts to read in another spelling, in order, without overlaps.

    Args:
        text: a text.
        language: its language; nothing for others than English, German and French.
        target: language of its translation.
    """
    if language not in _HOURS:
        return []
    parts = itertools.chain(
        _clock_times(text, language),
        _english(text) if language == "en" else (),
        _listed(text, language, target),
        (Literal(*span, read=digits) for span, digits in number_words(text, language)),
        _roman_numbers(text, language),
    )
    apart: list[Literal] = []
    for part in parts:
        if not meets_any(apart, *part.span):
            insort(apart, part, key=attrgetter("begin"))
    return apart


def _clock_times(text: str, language: str) -> Iterator[Literal]:
    for match in _CLOCK_TIME[language].finditer(text):
        half, written = match["half"], match["minutes"] or ""
        is_past = not half and match["to"] is None and (language != "fr" or " heure" in match[0])
        is_certain = is_past or written in _QUARTERS or (half and not half.startswith("et"))
        if not is_certain and not _AT.match(text, match.start()):
            continue  # two and a half hours, five to three
        words = [] if half or written in _QUARTERS else written.lower().split("-")
        minutes = sum(VALUES[language][word] for word in words) or (30 if half else 15)
        is_before = half == "halb" or match["to"] is not None
        hour = (_HOURS[language].split().index(match["hour"]) - is_before) % _HALF_DAY + 1
        minutes = 60 - minutes if is_before else minutes
        read = f"{hour} h {minutes:02}" if language == "fr" else f"{hour}:{minutes:02}"
        yield Literal(*match.span(), read=read + " Uhr" * (language == "de"))


def _english(text: str) -> Iterator[Literal]:
    """Yields world wars, amounts, times and ranges of days."""
    for match in _WAR.finditer(text):
        which = "First" if match["number"] in ("I", "One", "1") else "Second"
        article = "" if match["determiner"] else "the " if match.start() else "The "
        yield Literal(*match.span("war"), read=f"{article}{which} World War")
    for match in _AMOUNT.finditer(text):
        number, scale = match["amount"].removesuffix(match["scale"]).strip(), match["scale"]
        yield Literal(*match.span("amount"), read=f"{number} {_SCALES[scale[0].lower()]}")
    for match in _TIME.finditer(text):
        read = _time(match["hour"], match["minute"], match["half"])
        if first := match["first"]:
            is_before_noon = int(first) % _HALF_DAY > int(match["hour"]) % _HALF_DAY
            half = match["part"] or ("a" if is_before_noon else match["half"])
            read = f"{_time(first, match['minutes'], half)} to {read}"
        yield Literal(*match.span(), read=read)
    for match in _RANGE_OF_DAYS.finditer(text):
        yield Literal(*match.span(), read=" to ".join(_DAYS[day] for day in match.groups()))


def _time(hour: str, minute: str | None, half: str) -> str:
    return f"{int(hour) % _HALF_DAY + _HALF_DAY * (half in 'pP')}:{minute or '00'}"


class _Row(NamedTuple):
    """A row of spellings.txt. Each text that it matches has the hint, which is sought quickly."""

    hint: str
    expression: str
    read: str

    @property
    def pattern(self) -> re.Pattern[str]:
        return _compiled(self.expression)


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    """Compiles an expression when a text has its hint, since most texts have none."""
    return re.compile(expression)


_SLOT = re.compile(r"\{([a-z]+)\}")
_INNER_GROUP = re.compile(r"\([^()]*\)\??")
_NO_LITERAL = re.compile(r"\{#\}|\[[^\[\]]*\]\??|\\[a-z]|\\?.[?+*]|\\(?!\.)|[^\w /€.\\-]")
"""Parts of an expression that a text may have in another form."""


@lru_cache
def _rows(language: str, target: str) -> list[_Row]:
    rows: list[_Row] = []
    for line in (LISTS / "spellings.txt").read_text("utf-8").splitlines():
        languages, _, row = line.partition("\t")
        if languages in (language, f"{language}-{target}"):
            rows += _of_words(language, *row.split("\t"))
    return rows


def _of_words(language: str, form: str, read: str) -> Iterator[_Row]:
    """Yields a row for each word of its slot, or one."""
    for name, expression in _EXPRESSIONS[language].items():
        form = form.replace(f"{{{name}}}", expression)
    slot = _SLOT.search(form)
    if slot is None:
        yield _Row(_hint(form), _expression(form, language), read.replace("_", " "))
        return
    slots = {"month": months(language), **_SLOTS[language], **_VERBS.get(language, {})}
    for word in slots[slot[1]]:
        written = form.replace(slot[0], f"((?i:{word}))" if word.islower() else f"({word})")
        yield _Row(word[1:], _expression(written, language), read.replace("_", " "))


def _hint(form: str) -> str:
    form = form[1:] if form[0].isalpha() else form
    while (shorter := _INNER_GROUP.sub("\n", form)) != form:
        form = shorter
    return max(_NO_LITERAL.sub("\n", form).replace("\\", "").split("\n"), key=len)


def _expression(form: str, language: str) -> str:
    is_word = form[0].isalpha()
    first = f"[{form[0]}{form[0].upper()}]" if is_word else form[0]
    is_begin = is_word or form.startswith(("{", "((?i:", r"(\d"))
    begin = r"(?<![\w-])(?<!\d[.,:])" if is_begin else ""
    is_word_end = form[-1].isalnum() or form[-1] in "}?.]"
    end = r"(?!\w|[.,]\d)" if is_word_end else r"(?!(?<=\w)\w)"
    number = rf"(\d{{1,3}}|(?i:{'|'.join(sorted(VALUES[language], key=len, reverse=True))}))"
    return begin + (first + form[1:]).replace("{#}", number) + end


def _listed(text: str, language: str, target: str) -> Iterator[Literal]:
    """Yields what spellings.txt has."""
    values = _VALUES_OF_SLOTS[language]
    for row in _rows(language, target):
        if row.hint not in text:
            continue
        for match in row.pattern.finditer(text):
            written = row.read
            for number, group in enumerate(match.groups(""), start=1):
                written = written.replace(f"\\{number}", str(values.get(group.lower(), group)))
            if match[0][0].isupper() and not any(map(str.isalnum, text[: match.start()])):
                written = with_capital(written)
            yield Literal(*match.span(), read=written)


def _roman_numbers(text: str, language: str) -> Iterator[Literal]:
    for match in _ROMAN_NUMBER[language].finditer(text):
        (begin, end), roman = match.span(), match["roman"]
        word = _BEFORE.search(text, max(0, begin - _LONGEST_BEFORE), begin)
        before = word[0] if word else ""
        if match["ending"] and not (roman == "I" and _RULER.match(before)):
            yield Literal(begin, end, read=f"{_value(roman)}{match['ending']}")
        elif len(match[0]) > 1 and not match["ending"]:
            yield Literal(begin, end, is_usual=True)
        elif _is_number(roman, before, text, end, language):
            point = _GERMAN_POINT.match(text, end) if language == "de" else None
            yield Literal(begin, point.end() if point else end, target=roman)


def _is_number(letter: str, before: str, text: str, end: int, language: str) -> bool:
    """Whether a letter behind a word is a Roman number."""
    if _NO_INITIAL.match(text, end) is None:
        return False
    may_be_pronoun = letter == "I" and language == "en"
    is_end = not may_be_pronoun or _ENDS.match(text, end) is not None
    if _NUMBERED.fullmatch(before):
        return is_end or before.istitle()
    is_first = end == len(f"{before} {letter}")
    return is_end and before.istitle() and not (may_be_pronoun and is_first)


def _value(roman: str) -> int:
    values = [*map(_VALUES.__getitem__, roman), 0]
    return sum(
        -value if value < following else value for value, following in itertools.pairwise(values)
    )

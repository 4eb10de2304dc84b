# ruff: noqa: RUF001  the quotation marks of several languages
"""Alters sentence pairs by rule into text that users type but parallel corpora seldom contain.

Each rule takes a pair and returns a changed source with its correct translation, or None if it does
not apply. Random choices depend only on the pair.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Example:
    """A sentence and its translation."""

    src: str
    tgt: str
    src_language: str
    tgt_language: str


Rule = Callable[[Example, Random], tuple[str, str] | None]

FINAL_MARK = re.compile(r"(?<=\w)\s*[.!?]$")
_QUOTES = {"de": ("„", "“"), "fr": ("« ", " »")}
_OTHER_QUOTES = ("“", "”")
_NUMBER = re.compile(r"(?<![\w.,:/%+-])\d{1,4}(?![\w.,:/%-])")
_DIGITS = re.compile(r"\d+")
_NAME = re.compile(r"\b[^\W\d_a-zß-ÿ][^\W\d_]{2,}\b")
_EMOJI = (
    "😀😂🤣😊😍😘😉😎😢😭😡🤔🙄😴🤗👍👎👏🙏💪👋❤💔🔥✨🎉🎂🎁☀🌧"
    "⛄🌍🐶🐱🌹🍕🍺☕🚗🚲✈🏠📱💻📷⚽🎵✅❌⚠"
)
_WORDS = [
    "user",
    "name",
    "file",
    "date",
    "time",
    "title",
    "count",
    "total",
    "price",
    "city",
    "order",
    "item",
    "path",
    "page",
    "host",
    "email",
    "id",
    "first",
    "last",
    "value",
    "number",
    "message",
    "product",
    "project",
    "account",
    "address",
    "version",
    "size",
    "year",
    "link",
]


def lower_case(example: Example, _chance: Random) -> tuple[str, str] | None:
    """The source in lower case; its translation stays as it is."""
    lower = example.src.lower()
    return (lower, example.tgt) if lower != example.src else None


def upper_case(example: Example, _chance: Random) -> tuple[str, str] | None:
    """Both sides in upper case."""
    return example.src.upper(), example.tgt.upper()


def no_final_mark(example: Example, _chance: Random) -> tuple[str, str] | None:
    """Both sides without the mark that ends the sentence."""
    src, removed = FINAL_MARK.subn("", example.src)
    tgt, removed_too = FINAL_MARK.subn("", example.tgt)
    return (src, tgt) if removed and removed_too else None


def typographic(example: Example, _chance: Random) -> tuple[str, str] | None:
    """Both sides with the apostrophes and quotation marks of their languages.

    A pair without quotation marks becomes a quotation.
    """
    marks = example.src.count('"')
    if marks != example.tgt.count('"') or marks % 2:
        return None
    sides = [(example.src, example.src_language), (example.tgt, example.tgt_language)]
    src, tgt = (_quoted(side if marks else f'"{side}"', language) for side, language in sides)
    return src, tgt


def _quoted(text: str, language: str) -> str:
    quotes = itertools.cycle(_QUOTES.get(language, _OTHER_QUOTES))
    return re.sub('"', lambda _: next(quotes), text.replace("'", "’"))


def other_number(example: Example, chance: Random) -> tuple[str, str] | None:
    """Replaces the only number, if both sides share it; each side formats it for its language."""
    sides = (example.src, example.tgt)
    numbers = [_DIGITS.findall(side) for side in sides]
    if numbers[0] != numbers[1] or len(numbers[0]) != 1 or int(numbers[0][0]) < 2:
        return None
    if not all(map(_NUMBER.search, sides)):
        return None
    number = _year(chance) if len(numbers[0][0]) == 4 else _number(chance)
    languages = (example.src_language, example.tgt_language)
    src, tgt = (
        _NUMBER.sub(_written(number, language), side)
        for side, language in zip(sides, languages, strict=True)
    )
    return src, tgt


def _year(chance: Random) -> str:
    return str(chance.randint(1000, 2099))


def _number(chance: Random) -> str:
    """A number in English format."""
    kinds = (chance.randint(2, 99), chance.randint(100, 999), chance.randint(1000, 999_999))
    return f"{chance.choice((*kinds, chance.randint(11, 999) / 10)):,}"


def _written(number: str, language: str) -> str:
    if language == "de":
        return number.translate({ord(","): ".", ord("."): ","})
    if language == "fr":
        return number.replace(",", " ").replace(".", ",")
    return number


def emoji(example: Example, chance: Random) -> tuple[str, str] | None:
    """Both sides end with the same emoji."""
    shown = _emoji(chance)
    return f"{example.src} {shown}", f"{example.tgt} {shown}"


def _emoji(chance: Random) -> str:
    return "".join(chance.choices(_EMOJI, k=chance.choice((1, 1, 1, 2, 3))))


def placeholder(example: Example, chance: Random) -> tuple[str, str] | None:
    """A placeholder, an address or a tagged name in both sides.

    It replaces a name that both sides have once, or is appended.
    """
    names = [
        name
        for name in _NAME.findall(example.src)
        if example.src.count(name) == 1 and example.tgt.count(name) == 1
    ]
    if not names:
        shown = _placeholder(chance)
        return f"{example.src} {shown}", f"{example.tgt} {shown}"
    name = chance.choice(names)
    shown = _placeholder(chance) if chance.random() < 0.8 else f"<b>{name}</b>"
    return example.src.replace(name, shown), example.tgt.replace(name, shown)


def _placeholder(chance: Random) -> str:
    word, other = chance.sample(_WORDS, 2)
    number = chance.randint(0, 9)
    variables = (
        *(f"{{{word}}}", f"{{{number}}}", f"{{{{ {word}.{other} }}}}", f"${{{word}}}", f"&{word};"),
        *("%s", "%d", f"%({word})s", f"%{number + 1}$s", f"${word}", f"{word}_{other}()"),
    )
    return chance.choice((chance.choice(variables), _address(chance)))


def _address(chance: Random) -> str:
    word, other, more = chance.sample(_WORDS, 3)
    host = f"{word}-{other}.{chance.choice(('org', 'com', 'de', 'fr', 'net', 'io'))}"
    paths = ("", f"/{more}", f"/{more}/{chance.randint(1, 9999)}", f"/?{more}={word}")
    page = f"{chance.choice(('https://', 'https://www.', 'http://', 'www.'))}{host}"
    return chance.choice((f"{page}{chance.choice(paths)}", f"{more}@{host}"))


def copied(example: Example, _chance: Random) -> tuple[str, str] | None:
    """The target text as the source: text already in the target language stays unchanged."""
    return example.tgt, example.tgt


def no_text(_example: Example, chance: Random) -> tuple[str, str] | None:
    """Only numbers, codes and addresses, which stay unchanged."""
    word, other = chance.sample(_WORDS, 2)
    day, month, hour = chance.randint(1, 28), chance.randint(1, 12), chance.randint(0, 23)
    kinds = (
        *(str(chance.randint(0, 99_999)), f"{hour}:{chance.randint(0, 59):02}", _emoji(chance)),
        *(f"{day:02}.{month:02}.{_year(chance)}", f"{_year(chance)}-{month:02}-{day:02}"),
        *(f"{word[:2].upper()}-{chance.randint(100, 9999)}", f"v{month}.{hour}.{day}"),
        *(f"{word}_{other}.{chance.choice(('txt', 'pdf', 'py', 'jpg'))}", f"/{word}/{other}"),
        *(f"+{chance.randint(1, 99)} {chance.randint(10**5, 10**9)}", f"{day} %", "***", "..."),
        *(_address(chance), _placeholder(chance)),
    )
    text = chance.choice(kinds)
    return text, text


RULES: dict[str, Rule] = {
    rule.__name__: rule
    for rule in (
        *(other_number, lower_case, upper_case, no_final_mark, typographic, emoji, placeholder),
        *(copied, no_text),
    )
}
"""Rules by name."""

_TURNS = (
    # Most sentences have no number: the next rule takes its turn.
    *(other_number, lower_case, no_final_mark, placeholder, lower_case, copied, typographic),
    *(lower_case, no_final_mark, placeholder, lower_case, copied, emoji, no_text),
)
"""Rules in the order in which pairs of training text take turns through them.

What users type most, and what cost most quality, has several turns. Text in capitals has none: a
vocabulary splits it into letters, so the server translates it in its usual case.
"""


def applied(rule: Rule, example: Example) -> tuple[str, str] | None:
    """Apply a rule to a pair; always the same result."""
    return rule(example, Random(f"{example.src}\n{example.tgt}"))  # noqa: S311  (no secret)


def altered(examples: Iterable[Example], share: float) -> Iterator[tuple[str, str]]:
    """Alter a share of the examples, evenly spread, each by the next rule that applies to it.

    Args:
        examples: in their order.
        share: from 0 to 1.

    Yields:
        Source and target.
    """
    rules = itertools.cycle(_TURNS)
    for number, example in enumerate(examples):
        if math.floor((number + 1) * share) > math.floor(number * share):
            # The loop ends: some rules apply to any pair.
            yield next(pair for rule in rules if (pair := applied(rule, example)))

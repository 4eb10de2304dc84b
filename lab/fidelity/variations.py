# ruff: noqa: RUF001  signs of several languages
"""Texts of the kinds in which translations lose something, with other values in each."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

from lab.fidelity import signs
from lab.fidelity.made_up import MARKS, templates
from lab.fidelity.number_words import spelled
from lab.fidelity.numbers import differing
from lab.fidelity.placeholders import placeholder

_MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
}
_LIMITS = {
    "en": (
        r"(?<!no )(?<!not )\b(?:less|fewer)\b|most|maximum|no more|not more|\bup to\b|under",
        r"(?<!no )(?<!not )more than|least|(?:no|not) (?:fewer|less)|\bover\b",
    ),
    "de": (
        r"(?<!nicht )weniger|höchstens|maxim|nicht mehr|\bbis zu\b|\bunter\b",
        r"(?<!nicht )mehr als|mindestens|wenigstens|(?:nicht|keine?) weniger|\büber\b",
    ),
    "fr": (
        r"(?<!pas )(?<!au )\bmoins (?:d|que)|au plus|maximum|pas plus",
        r"(?<!pas )plus d|au moins|(?:pas|aucun) (?:de )?moins|minimum",
    ),
}
"""What sets an upper and a lower limit."""
_KEPT = (
    "code",
    "address",
    "mail",
    "file",
    "emoji",
    "sign",
    "word",
    "power",
    "unit",
    "rating",
    "ph",
)
"""Slots whose texts must be unchanged."""
_BREAKS = ("<br>", "<br/>", "<br />", "<BR>", "\n", "<br>\n", " <br> ", "\r\n", r"\n")
_NEGATION = {
    "en": r"\b(?:not?|never|nobody|nothing|none|cannot|without|neither|nor|any\w*|no one|forbidden"
    r"|don)\b|n['’]t\b",
    "de": r"\b(?:nicht|nichts|nie|niemals|niemand\w*|kein\w*|ohne|weder|verboten|untersagt)\b",
    "fr": r"\b(?:pas|jamais|rien|personne|aucune?|sans|ni|non|interdit|plus)\b|\bne\b|\bn['’]",
}
_PLACED = re.compile(
    r"<[^<>]+>|[\n\t]|\\n|\[\[\w+\||\]\]|\[/?size(?:=2)?\]|\$x_1\^2\$|1e-\d|\d+×\d+|\*\*"
    r"|!\[|:heart:|:dog:|:count|:user|:-\)|;\)|`[^`]*`|[#@]\w+"
)
_DASH = re.compile(r"(?:^|<[^<>]*>|(?<=[.?!] ))\s*([-–]) ", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True)
class Variation:
    """A text of a kind, and what its translation must have unchanged."""

    kind: str
    src: str
    tgt: str
    text: str
    kept: tuple[str, ...] = ()
    is_html: bool = False
    is_auto: bool = False

    def faults(self, translation: str) -> Iterator[str]:
        """What is wrong with its translation."""
        if "\ufffd" in translation:
            yield "U+FFFD"
        if not any(map(str.isalpha, translation)):
            yield "no letters"
        for literal in dict.fromkeys(self.kept):
            if translation.count(literal) != self.text.count(literal):
                yield f"{self.text.count(literal)} {literal!r}, not {translation.count(literal)}"
            if _glued(literal, self.text) < _glued(literal, translation):
                yield f"{literal!r} joined to a word"
        if other := self._numbers(translation):
            yield other
        if _PLACED.findall(self.text) != _PLACED.findall(translation):
            yield f"order of {_PLACED.findall(self.text)}"
        if self.kind == "dashes" and _DASH.findall(self.text) != _DASH.findall(translation):
            yield "dashes"
        if self.kind == "columns" and self.text.count("   ") != translation.count("   "):
            yield "columns"
        yield from self._of_meaning(translation)
        if self.is_auto and translation == self.text:
            yield "not translated"

    def _numbers(self, translation: str) -> str:
        """Numbers that differ, besides those of what must be unchanged."""
        texts = [self.text, translation]
        for literal in sorted(self.kept, key=len, reverse=True):
            texts = [text.replace(literal, " ") for text in texts]
        missing, extra = differing(texts[0], self.src, texts[1], self.tgt) or ((), ())
        return f"numbers -{[*map(str, missing)]} +{[*map(str, extra)]}" * bool(missing or extra)

    def _of_meaning(self, translation: str) -> Iterator[str]:
        if self.kind == "negation":
            yield from self._of_negation(translation)
        elif self.kind == "phrases":
            yield from self._of_phrases(translation)

    def _of_negation(self, translation: str) -> Iterator[str]:
        before, after = (
            len(re.findall(_NEGATION[language], text, re.IGNORECASE))
            for language, text in ((self.src, self.text), (self.tgt, translation))
        )
        if not after or (before > 1 and after < 2 and self.src != "fr"):
            yield f"{after} negations"
        capitals = set(re.findall(r"\b[^\W\d_a-z]{3,}\b", self.text))
        if kept := capitals & set(re.findall(r"\b[^\W\d_a-z]{3,}\b", translation)):
            yield f"untranslated {kept}"

    def _of_phrases(self, translation: str) -> Iterator[str]:
        yield from lost_days(self.text, translation, self.src, self.tgt)
        for pattern, other in zip(_LIMITS[self.src], _LIMITS[self.tgt], strict=True):
            if re.search(pattern, self.text, re.I) and not re.search(other, translation, re.I):
                yield f"{pattern!r} lost"


def days(text: str, src: str, tgt: str) -> Iterator[tuple[str, str]]:
    """Days and months of a text, each with its translation."""
    for word, other in zip(*map(_days_and_months, (src, tgt)), strict=True):
        if re.search(rf"\b(?:{word}|{word.capitalize()})\b", text):
            yield word, other


def lost_days(text: str, translation: str, src: str, tgt: str) -> Iterator[str]:
    """Days and months of a text that its translation lacks."""
    for word, other in days(text, src, tgt):
        if not re.search(rf"\b{other}", translation, re.I):
            yield f"{word} lost"


def _glued(item: str, text: str) -> int:
    """How often an item that begins or ends with a letter or digit is joined to another one."""
    before = r"(?<=[^\W_])" if item[0].isalnum() else "(?!)"
    behind = r"(?=[^\W_])" if item[-1].isalnum() else "(?!)"
    return len(re.findall(rf"{before}{re.escape(item)}|{re.escape(item)}{behind}", text))


def variations(src: str, tgt: str, number: int, seed: int = 0) -> list[Variation]:
    """Variations of all kinds in one direction; the same for the same arguments."""
    generator = random.Random(f"{src}{tgt}{seed}")  # noqa: S311  (no secret)
    lines = templates("variations", src)
    order = generator.sample(lines, len(lines))
    return [_variation(order[index % len(order)], src, tgt, generator) for index in range(number)]


def _variation(line: str, src: str, tgt: str, generator: random.Random) -> Variation:
    kind, _, line = line.partition(": ")
    if "|" in line:
        line = generator.choice(line.split("|"))
    kept: list[str] = []
    line_break = generator.choice(_BREAKS)

    def fill(slot: re.Match[str]) -> str:
        name = slot[1]
        if name in ("br", "nl", "tab"):
            return {"br": line_break, "nl": "\n", "tab": "\t"}[name]
        text = _filled(name, src, generator)
        while text in kept:
            text = _filled(name, src, generator)
        if name in _KEPT:
            kept.append(text)
        return text

    text = re.sub(r"\[([a-z]+)\](?!\()", fill, line)
    if kind == "negation":
        text = _emphasized(text, generator)
    is_html = "<" in text and kind == "breaks" and generator.random() < 0.5
    return Variation(kind, src, tgt, text, tuple(kept), is_html, kind == "detection")


def _emphasized(text: str, generator: random.Random) -> str:
    """A sentence with its marked words in capitals, or these and the words beside them."""
    more = generator.random() < 0.3
    if more:
        text = re.sub(r"(?<=\* )(\w{4,})(?= )", r"*\1*", text, count=1)
    return re.sub(r"\*(\w+)\*", lambda word: word[1].upper(), text)


def _filled(name: str, language: str, generator: random.Random) -> str:
    if name == "ph":
        return placeholder(generator)
    if name in ("emoji", "sign", "word"):
        return generator.choice(_listed(name))
    if name == "spelled":
        return spelled(generator.randint(13, 99), language)
    if name in ("large", "decimal"):
        thousands, decimal = MARKS[language]
        marks = str.maketrans({",": thousands, ".": decimal})
        if name == "large":
            return f"{generator.randint(1000, 3_000_000):,}".translate(marks)
        return f"{generator.uniform(1, 99):.{generator.randint(1, 2)}f}".translate(marks)
    text = generator.choice(_slots(language)[name])
    text = text.replace("~", generator.choice(_MONTHS[language].split()))
    text = text.replace("#f", generator.choice("0123456789abcdef"))
    return re.sub(
        r"#(\d+)-(\d+)!?", lambda limits: str(generator.randint(*map(int, limits.groups()))), text
    )


def _days_and_months(language: str) -> list[str]:
    return [*_slots(language)["day"], *_MONTHS[language].split()]


@cache
def _slots(language: str) -> Mapping[str, Sequence[str]]:
    lines = [*templates("slots", "all"), *templates("slots", language)]
    return {name: texts.split("|") for name, texts in (line.split(": ", 1) for line in lines)}


@cache
def _listed(name: str) -> Sequence[str]:
    if name == "emoji":
        return signs.emoji()
    if name == "word":
        return list(islice(signs.foreign_words(), 300))
    return [sign for sign in signs.listed("signs") if not any(map(str.isalnum, sign))]

"""Phrases whose loss changes what a sentence says: days, months, limits such as `less than`.

They are like terms of a glossary, but a translation may have any phrase of the same meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from dragoman_serving.fidelity.names import LISTS

_LANGUAGES = ("en", "de", "fr")
_WORD = re.compile(r"[^\W\d_]+")
_BESIDE = re.compile(r"\{([^{}]+)\}")
_NO_NAME_BEFORE = r"(?<!Black )(?<!Cyber )(?<!Super )(?<!Bloody )"
_NO_NAME_BEHIND = r"(?!\s(?!(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\b)[A-Z][a-z])"
"""Around English days and months that are part of no name: `Black Friday`, `Sunday Times`."""
_POINT = re.compile(r"\.(?= [\da-zß-ÿ])")
_ENDINGS = ("", "e", "em", "en", "er", "es", "s")
"""Endings of adjectives."""
_SHORT = 4
"""A longer phrase may be within a word of a translation: `Montagabend`."""

_Parts = tuple[str, str, str]
"""What is before a phrase in a source, the phrase, and what is behind it."""


class _Meaning(NamedTuple):
    """A meaning in a language: what a translation gets, and an expression of what it may have."""

    written: str
    accepted: re.Pattern[str]


class Phrase(NamedTuple):
    """A phrase from `begin` to `end` in a text; see `_Meaning`. `has_number`: it stands beside one.

    A translation needs one of these for each number, but another phrase just once.
    """

    begin: int
    end: int
    written: str
    accepted: re.Pattern[str]
    has_number: bool


@cache
def _meaning(language: str, number: int) -> _Meaning:
    """The meaning of a row, compiled when a text has it: all would delay the first requests."""
    required, forms = _rows(language)[number]
    accepted = re.compile("|".join(map(_accepted, forms)), re.IGNORECASE)
    return _Meaning(required[0][1].rstrip("*"), accepted)


def months(language: str) -> list[str]:
    """Returns the names of the months."""
    return [_meaning(language, number).written for number in range(12)]


def needs_capital(word: str, language: str) -> bool:
    """Whether a word in small letters begins a phrase only with a capital, as a month does."""
    return language in _LANGUAGES and word in _with_capital(language)


@cache
def _with_capital(language: str) -> frozenset[str]:
    phrases = (phrase for required, _ in _rows(language) for _, phrase, _ in required)
    words = {word[0] for phrase in phrases if (word := _WORD.match(phrase)) is not None}
    return frozenset(word.lower() for word in words if word.lower() not in words)


@cache
def _sources(language: str) -> dict[str, list[tuple[int, _Parts]]]:
    """Numbers of meanings and their phrases, by a phrase's first word."""
    sources: dict[str, list[tuple[int, _Parts]]] = {}
    for number, (required, _) in enumerate(_rows(language)):
        for form in required:
            first = _WORD.match(form[1])
            assert first is not None
            is_stem = f"{first[0]}*" == form[1]
            for ending in _ENDINGS if is_stem else _ENDINGS[:1]:
                word = (first[0] + ending).casefold()
                sources.setdefault(word, []).append((number, form))
    return sources


@cache
def _rows(language: str) -> list[tuple[list[_Parts], list[str]]]:
    """The phrases of each meaning: with what is beside them in a source, and all."""
    column = _LANGUAGES.index(language)
    rows: list[tuple[list[_Parts], list[str]]] = []
    for line in (LISTS / "phrases.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        required, _, others = line.split("|")[column].partition(";")
        forms = [
            (before, phrase.strip(), behind)
            for form in required.split(",")
            for before, phrase, behind in [_parts(form.strip())]
        ]
        further = [form.strip() for form in others.split(",") if others]
        rows.append((forms, [*(phrase for _, phrase, _ in forms), *further]))
    return rows


def _parts(form: str) -> _Parts:
    if match := _BESIDE.match(form):
        return match[1], form[match.end() :], ""
    phrase, *behind = _BESIDE.split(form)
    return "", phrase, "".join(behind)


def _accepted(form: str) -> str:
    escaped = re.escape(form.rstrip("*"))
    return rf"(?<!\w){escaped}(?!\w)" if len(form) <= _SHORT else escaped


@cache
def _form(before: str, phrase: str, behind: str, language: str) -> re.Pattern[str]:
    """An expression for a phrase in a source."""
    word = r"\d" if before == "#" else re.escape(before)
    begin = rf"(?:(?<={word}[ \u00a0])|(?<={word}))" if before else r"(?<!\w)"
    first, rest = re.escape(phrase[0]), re.escape(phrase[1:].rstrip("*"))
    if len(phrase) > _SHORT:
        first = f"[{first}{first.upper()}]"
    end = r"(?!\w)" if phrase[-1].isalpha() else ""
    if phrase.endswith("*"):
        end = rf"(?:{'|'.join(_ENDINGS)})(?!\w)"
    if behind:
        end = r"(?=[ \u00a0]?[A-Z#\[]?\d)"  # a stand-in may be `X1`
    if language == "en" and phrase.isalpha() and phrase.istitle():
        begin, end = f"{_NO_NAME_BEFORE}{begin}", f"{end}{_NO_NAME_BEHIND}"
    return re.compile(begin + first + rest + end)


def phrases_of(text: str, source: str, target: str) -> Iterator[Phrase]:
    """Yields the phrases of a text; none for languages without a list.

    Args:
        text: a sentence.
        source: its language.
        target: language of its translation.
    """
    if source == target or not {source, target} <= {*_LANGUAGES}:
        return
    sources, end = _sources(source), 0
    for word in _WORD.finditer(text):
        for number, form in sources.get(word[0].casefold(), ()):
            if word.start() < end:
                continue
            if match := _form(*form, source).match(text, word.start()):
                end = match.end()
                has_number = text[end : end + 2].strip()[:1].isdigit()
                yield Phrase(*match.span(), *_meaning(target, number), has_number)


def points(
    source: str, target: str, source_language: str, target_language: str
) -> Iterator[tuple[int, int, str]]:
    """Yields what to change in a translation so that words have no point of an abbreviation.

    Such as `ungefähr. 5`, for `approx. 5`. Arguments: see `ordinals`.
    """
    for phrase in phrases_of(source, source_language, target_language):
        if source[phrase.end - 1] == "." and (match := phrase.accepted.search(target)):
            begin = match.end()
            if match[0].isalpha() and len(match[0]) > _SHORT and _POINT.match(target, begin):
                yield begin, begin + 1, ""

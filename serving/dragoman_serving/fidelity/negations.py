"""Negations: whether a translation says the opposite of its sentence.

Models omit `not` in one of some hundred sentences, and the prefix of a word such as `incorrect` in
one of twenty labels with such a word. They add them more seldom.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from dragoman_serving.fidelity.names import LISTS

_HINTS = {
    "en": ("no", "n't", "n\u2019t", "never", "neither", "without"),
    "de": ("nicht", "kein", "nie", "nirgend", "weder", "ohne"),
    "fr": ("ne ", "n'", "n\u2019", "pas", "jamais", "aucun", "rien", "sans", " ni "),
}
"""A text without any of these, in small letters, has no negative word: a quick check."""

_NOUN = {
    "en": r"\w+(?:[ct]y|ties|ness|ment|ion|[ae]nce)s?",
    "de": r"\w+(?:[hk]eit|ung)(?:en)?",
    "fr": r"\w+tés?",
}
"""Nouns with a negative prefix, such as `uncertainty`: no `not` takes their place."""

_MOST_NEGATIONS = 2
"""Further negations of a sentence are not counted."""
_BEGINS_CLAUSE = re.compile("ne?\\b|sans", re.IGNORECASE)


class _Words(NamedTuple):
    """Expressions for words of a language; `negations.txt` says what the kinds are."""

    negation: re.Pattern[str]
    affixed: re.Pattern[str]
    idiom: re.Pattern[str]
    other: re.Pattern[str]
    doubtful: re.Pattern[str]


@lru_cache
def _words_of(language: str) -> _Words:
    lines = (LISTS / "negations.txt").read_text("utf-8").splitlines()
    rows = [line.split(maxsplit=2) for line in lines if line.startswith(f"{language} ")]
    patterns = {
        kind: _pattern([row[2] for row in rows if row[1] == kind]) for kind in _Words._fields
    }
    patterns["affixed"] = rf"(?=(?:{patterns['affixed']}))(?!{_NOUN[language]}(?!\w))"
    return _Words(*(re.compile(pattern, re.IGNORECASE) for pattern in patterns.values()))


def _pattern(rows: Sequence[str]) -> str:
    """An expression for the words and the expressions of some rows."""
    patterns = [row[1:-1] for row in rows if row.startswith("/")]
    words = " ".join(row for row in rows if not row.startswith("/"))
    alternatives = words.replace("*", r"\w*").replace("_", r"\s").replace(" ", "|")
    return "|".join((rf"(?<!\w)(?:{alternatives})(?!\w)", *patterns))


@lru_cache(maxsize=128)
def says_opposite(text: str, translation: str, source: str, target: str) -> bool:
    """Whether a translation lacks a negation of a sentence, or has one where it has none.

    Sentences of the last requests are remembered, since warnings need the same.

    Args:
        text: a sentence.
        translation: its translation.
        source: language of the sentence.
        target: language of its translation.

    Returns:
        False for other languages than English, German and French, and in case of doubt.
    """
    if source == target or not {source, target} <= _HINTS.keys():
        return False
    own, others = _words_of(source), _words_of(target)
    if negates(text, source):
        negations = own.negation.findall(own.idiom.sub(" ", text))
        if source == "fr":  # in which one negation may have several words: `ne … jamais rien`
            negations = negations[:1] + list(filter(_BEGINS_CLAUSE.match, negations[1:]))
        remaining, number = others.negation.subn(" ", translation)
        most = min(max(1, len(negations)), _MOST_NEGATIONS)
        return number < most and number + len(others.other.findall(remaining)) < most
    return negates(translation, target) and not any(
        words.search(text) for words in (own.negation, own.other, own.doubtful)
    )


def has_negation(text: str, language: str) -> bool:
    """Whether a text of English, German or French has a negation, such as `not`."""
    return _words_of(language).negation.search(text) is not None


def negates(text: str, language: str) -> bool:
    """Whether a text has a negation, or a word with a negative prefix, such as `invalid`.

    Args:
        text: a sentence.
        language: English, German or French.
    """
    words, small = _words_of(language), text.lower()
    return words.affixed.search(text) is not None or (
        any(hint in small for hint in _HINTS[language])
        and words.negation.search(words.idiom.sub(" ", text)) is not None
    )

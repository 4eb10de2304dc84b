"""Language detection by py3langid, which needs no network and 20 to 200 us a sentence.

Languages are named by their codes in ISO 639-1. If py3langid is not installed, each function raises
ModuleNotFoundError, and the command line prints how to install it.

Source: Lui and Baldwin, "langid.py: An Off-the-shelf Language Identification Tool" (ACL 2012)
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Any

from dragoman.kernel.errors import InvalidRequest, UsageError

_SURE = 0.999
"""Probability from which a text counts as one of a language that is not in question."""
_FEWEST_CHARACTERS = 20
"""Length from which a text is refused as of another language; a shorter one looks like many."""


class OtherLanguage(UsageError):
    """A text is in none of the languages in question, as it seems.

    Attributes:
        language: which it is in.
    """

    def __init__(self, language: str, among: Sequence[str]) -> None:
        """Say so."""
        super().__init__(f"is in {language!r}, as it seems: known are {', '.join(among)}")
        self.language = language


def detectable_languages() -> Collection[str]:
    """All languages that can be detected."""
    languages: list[str] = _identifier().nb_classes
    return languages


def most_probable_language(text: str) -> tuple[str, float]:
    """The most probable of all languages, and its probability."""
    language, probability = _identifier().classify(text)
    return language, probability


def detect_language(text: str, among: Sequence[str], known: Collection[str]) -> str:
    """The most probable of some languages.

    Args:
        text: a sentence or more; of one that is short the answer is a guess.
        among: the languages in question, at least one.
        known: these, and others that do not make it an error.

    Raises:
        OtherLanguage: the text is almost surely in none of the known languages.
        InvalidRequest: a language in question, of several, cannot be detected.
    """
    ranked: list[tuple[str, float]] = _identifier().rank(text)
    labels = [label for label, _ in ranked]
    for language in among:
        if language not in labels:
            if len(among) == 1:
                return language
            raise InvalidRequest(f"source_language auto: {language!r} cannot be detected, name it")
    found, probability = ranked[0]
    is_long = len(text.strip()) >= _FEWEST_CHARACTERS
    if found not in known and probability > _SURE and is_long:
        raise OtherLanguage(found, among)
    return next(label for label in labels if label in among)


@functools.cache
def _identifier() -> Any:
    """Loaded on first use: it takes 0.1 s and about 55 MB."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_pickled_model(MODEL_FILE, norm_probs=True)

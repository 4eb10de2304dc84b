"""Which language a text is in, by py3langid, which needs no network and 20 to 200 us a sentence.

Knows texts and codes of languages; must not know models.

Source: Lui and Baldwin, "langid.py: An Off-the-shelf Language Identification Tool" (ACL 2012)
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Any

from dragoman.kernel.errors import InvalidRequest, UsageError

_SURE = 0.999
"""Probability from which a text counts as one of a language that was not asked about."""
_FEWEST_CHARACTERS = 20
"""Of a text that can be told apart from all languages; shorter ones look like many."""


class OtherLanguage(UsageError):
    """A text is in none of the languages in question, as it seems."""


def detect_language(text: str, among: Collection[str], known: Collection[str]) -> str:
    """The likeliest language of a text.

    Args:
        text: a sentence or more; of one that is short the answer is a guess.
        among: languages in question, by their codes in ISO 639-1.
        known: those, and others that are not strange either.

    Raises:
        OtherLanguage: it is surely in none of the known languages.
        InvalidRequest: a language in question is one that nobody can detect.
    """
    ranked: list[tuple[str, float]] = _identifier().rank(text)
    labels = [label for label, _ in ranked]
    for language in among:
        if language not in labels:
            raise InvalidRequest(f"source_language auto: {language!r} cannot be detected, name it")
    likeliest, probability = ranked[0]
    is_long = len(text.strip()) >= _FEWEST_CHARACTERS
    if likeliest not in known and probability > _SURE and is_long:
        raise OtherLanguage(f"is in {likeliest!r}, as it seems: known are {', '.join(known)}")
    return next(label for label in labels if label in among)


@functools.cache
def _identifier() -> Any:
    """Loaded when it is first asked for: it takes 0.1 s, and about 55 MB."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_pickled_model(MODEL_FILE, norm_probs=True)

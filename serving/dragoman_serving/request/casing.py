"""Text in capitals, or without any capital, in the case that a model has learned to read.

A vocabulary has few tokens for words in capitals, and German without capitals is ambiguous. A word
gets a capital if the vocabulary writes it so in fewer tokens: `Haus`, but `house`. No character is
added or removed, so positions in the text stay valid.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from dragoman.kernel.text import Tokenizer
from dragoman_serving.request.placeholders import placeholder_spans, split_at_placeholders

_WORD = re.compile(r"(?<![\w./@:\\&-])[^\W\d_]+(?:['’][^\W\d_]+)*(?![\w/@\\]|[.:-]\w)")  # noqa: RUF001
"""A word that is not a part of a file name, an address or the like."""
_LETTER, _FIRST = re.compile(r"[^\W\d_]"), re.compile(r"[^\W_]")
_FEWEST_LETTERS = 5
"""A text in capitals with fewer letters may be an acronym."""
_FEWEST_WORDS = 3
"""A text of fewer words without capitals may be a term from a list."""
_CAPITALS = {ord("ß"): "ẞ"}
"""Capital letters that `str.upper` writes as several characters."""


class Capitals(NamedTuple):
    """That a sentence was in capitals, perhaps except its placeholders."""

    keeps_placeholders: bool

    def put_into(self, translation: str) -> str:
        """Returns the translation in capitals, of the same length."""
        return _around_placeholders(_upper, translation, self.keeps_placeholders)


class Cased(NamedTuple):
    """A sentence as the model reads it, and whether it was in capitals."""

    text: str
    capitals: Capitals | None = None


class Casing:
    """Changes the case of sentences for a model."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Store the tokenizer of the source."""
        self._tokenizer = tokenizer

    def of(self, text: str, keeps_placeholders: bool) -> Cased:
        """Returns a sentence as the model reads it.

        Args:
            text: a sentence without tags.
            keeps_placeholders: whether its placeholders stay as they are.
        """
        if text.islower():
            is_term = len(text.split()) < _FEWEST_WORDS
            return Cased(text if is_term else self._with_capitals(text))
        if not _is_upper(text, keeps_placeholders):
            return Cased(text)
        lower = _around_placeholders(str.lower, text, keeps_placeholders)
        if len(lower) != len(text):
            return Cased(text)
        read = _FIRST.sub(_capital, self._with_capitals(lower), count=1)
        return Cased(read, Capitals(keeps_placeholders))

    def _with_capitals(self, text: str) -> str:
        return _WORD.sub(lambda word: self._word(word[0]), text)

    def _word(self, word: str) -> str:
        capital = _upper(word[0]) + word[1:]
        fewer = len(self._tokenizer.encode(capital)) < len(self._tokenizer.encode(word))
        return capital if fewer else word


def _is_upper(text: str, keeps_placeholders: bool) -> bool:
    if keeps_placeholders:
        text = "".join(split_at_placeholders(text))
    return text.isupper() and len(_LETTER.findall(text)) >= _FEWEST_LETTERS


def _capital(first: re.Match[str]) -> str:
    return _upper(first[0])


def _upper(text: str) -> str:
    text = text.translate(_CAPITALS)
    upper = text.upper()
    if len(upper) == len(text):
        return upper
    return "".join(one.upper() if len(one.upper()) == 1 else one for one in text)


def _around_placeholders(change: Callable[[str], str], text: str, keeps_placeholders: bool) -> str:
    if not keeps_placeholders:
        return change(text)
    parts: list[str] = []
    at = 0
    for begin, end in placeholder_spans(text):
        parts += (change(text[at:begin]), text[begin:end])
        at = end
    return "".join((*parts, change(text[at:])))

"""Text in capitals, or without any capital, in the case that a model has learned to read.

A vocabulary has few tokens for words in capitals, and German without capitals is ambiguous. A word
gets a capital if the vocabulary writes it so in fewer tokens: `Haus`, but `house`. No character is
added or removed, so positions in the text stay valid.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dragoman.kernel.cutting import Span
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
        spans = placeholder_spans(translation) if self.keeps_placeholders else ()
        return _around(spans, _upper, translation)


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
        words = "".join(split_at_placeholders(text)) if keeps_placeholders else text
        is_lower = words.islower() and len(words.split()) >= _FEWEST_WORDS
        is_upper = words.isupper() and len(_LETTER.findall(words)) >= _FEWEST_LETTERS
        if not is_lower and not is_upper:
            return Cased(text)
        fixed = placeholder_spans(text) if keeps_placeholders else []
        if is_lower:
            return Cased(self._with_capitals(text, fixed))
        lower = _around(fixed, str.lower, text)
        if len(lower) != len(text):
            return Cased(text)
        read = self._with_capitals(_begin_with_capital(lower, fixed), fixed)
        return Cased(read, Capitals(keeps_placeholders))

    def _with_capitals(self, text: str, fixed: Sequence[Span]) -> str:
        return _around(fixed, lambda part: _WORD.sub(self._word, part), text)

    def _word(self, found: re.Match[str]) -> str:
        word = found[0]
        capital = _upper(word[0]) + word[1:]
        fewer = len(self._tokenizer.encode(capital)) < len(self._tokenizer.encode(word))
        return capital if fewer else word


def _begin_with_capital(text: str, fixed: Sequence[Span]) -> str:
    first = _FIRST.search(text)
    if first is None or any(begin <= first.start() < end for begin, end in fixed):
        return text
    return text[: first.start()] + _upper(first[0]) + text[first.end() :]


def _upper(text: str) -> str:
    text = text.translate(_CAPITALS)
    upper = text.upper()
    if len(upper) == len(text):
        return upper
    return "".join(one.upper() if len(one.upper()) == 1 else one for one in text)


def _around(spans: Sequence[Span], change: Callable[[str], str], text: str) -> str:
    """Changes a text except its spans."""
    parts: list[str] = []
    at = 0
    for begin, end in spans:
        parts += (change(text[at:begin]), text[begin:end])
        at = end
    return "".join((*parts, change(text[at:])))

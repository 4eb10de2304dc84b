"""Text in capitals, or without any capital, in the case that a model has learned to read.

A vocabulary has few tokens for words in capitals, and German without capitals is ambiguous. A word
gets a capital if the vocabulary writes it so in fewer tokens: `Haus`, but `house`. No character is
added or removed, so positions in the text stay valid.

The translation of a sentence in capitals is set in capitals. Emphasized words in capitals, such as
`NOT`, are read and translated in their usual case; abbreviations, such as `NATO`, stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dragoman.kernel.text import Tokenizer
from dragoman.kernel.texts.cutting import Span
from dragoman_serving.fidelity.emphasis import WORD, Emphasis, may_have_capitals
from dragoman_serving.fidelity.letter_case import lower, upper, with_capital
from dragoman_serving.fidelity.literals import without

_LETTER, _FIRST = re.compile(r"[^\W\d_]"), re.compile(r"[^\W_]")
_FEWEST_LETTERS = 5
"""A text in capitals with fewer letters may be an acronym."""
_FEWEST_WORDS = 3
"""A text of fewer words without capitals may be a term from a list."""


class Capitals(NamedTuple):
    """That a sentence was in capitals, or at least the first letter of its first word.

    `language` is that of the translation.
    """

    only_first: bool = False
    language: str = ""

    def put_into(self, translation: str, fixed: Sequence[Span] = ()) -> str:
        """Returns the translation in capitals, of the same length, except for some spans."""
        if self.only_first:
            return _begin_with_capital(translation, fixed, self.language)
        return _around(fixed, upper, translation, self.language)


class Cased(NamedTuple):
    """A sentence as the model reads it, and whether it was in capitals."""

    text: str
    capitals: Capitals | None = None


class Casing:
    """Changes the case of sentences for a model."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Store the tokenizer of the source."""
        self._emphasis = Emphasis(tokenizer)

    def of(self, text: str, language: str, fixed: Sequence[Span] = (), target: str = "") -> Cased:
        """Returns a sentence as the model reads it.

        Args:
            text: a sentence without tags.
            language: its language code.
            fixed: spans that stay as they are.
            target: language code of its translation.
        """
        words = without(text, fixed)
        if words.isupper():
            if not self._has_words(words, language):
                return Cased(text)
            read = self._with_beginning(_around(fixed, lower, text, language), fixed, language)
            read = self._with_capitals(read, fixed, language)
            return Cased(read, Capitals(language=target))
        read = self._without_emphasis(text, fixed, language)
        words = without(read, fixed)
        if words.islower() and len(words.split()) >= _FEWEST_WORDS:
            read = self._with_capitals(read, fixed, language)
        return Cased(read, _lost_beginning(text, read, target))

    def _has_words(self, text: str, language: str) -> bool:
        """Whether a text in capitals has other words than an acronym."""
        if len(_LETTER.findall(text)) >= _FEWEST_LETTERS:
            return True
        words = WORD.findall(text)
        return bool(words) and len(self._emphasis.words(text, language)) == len(words)

    def _without_emphasis(self, text: str, fixed: Sequence[Span], language: str) -> str:
        """Writes emphasized words in their usual case."""
        if not may_have_capitals(text):
            return text
        read = text
        for begin, word in self._emphasis.words(text, language, fixed):
            read = read[:begin] + word + read[begin + len(word) :]
        if _lost_beginning(text, read) is None:
            return read
        return self._with_beginning(read, fixed, language)

    def _with_beginning(self, text: str, fixed: Sequence[Span], language: str) -> str:
        """A text that begins with a capital, unless its first word takes more tokens so."""
        read = _begin_with_capital(text, fixed, language)
        first = _FIRST.search(text)
        if first is None or (word := WORD.match(text, first.start())) is None:
            return read
        capital, usual = read[slice(*word.span())], self._emphasis.usual(word[0], language)
        more = self._emphasis.tokens(capital) > self._emphasis.tokens(usual)
        return text if more else read

    def _with_capitals(self, text: str, fixed: Sequence[Span], language: str) -> str:
        def change(part: str, language: str) -> str:
            return WORD.sub(lambda match: self._emphasis.usual(match[0], language), part)

        return _around(fixed, change, text, language)


def _lost_beginning(text: str, read: str, target: str = "") -> Capitals | None:
    """Restores the capital at the beginning, if the text as the model reads it lacks it."""
    first = _FIRST.search(text)
    if first is None or read[first.start()] == first[0]:
        return None
    return Capitals(only_first=True, language=target)


def _begin_with_capital(text: str, fixed: Sequence[Span], language: str) -> str:
    first = _FIRST.search(text)
    if first is None or any(begin <= first.start() < end for begin, end in fixed):
        return text
    return text[: first.start()] + with_capital(text[first.start() :], language)


def _around(
    spans: Sequence[Span], change: Callable[[str, str], str], text: str, language: str
) -> str:
    """Changes a text except its spans, by the rules of its language."""
    parts: list[str] = []
    at = 0
    for begin, end in spans:
        parts += (change(text[at:begin], language), text[begin:end])
        at = end
    return "".join((*parts, change(text[at:], language)))

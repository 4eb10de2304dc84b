"""Text in capitals, or without any capital, in the case that a model has learned to read.

A vocabulary has few tokens for words in capitals, and German without capitals is ambiguous. A word
gets a capital if the vocabulary writes it so in fewer tokens: `Haus`, but `house`. No character is
added or removed, so positions in the text stay valid.

The translation of a sentence in capitals is set in capitals. Emphasized words in capitals, such as
`NOT`, are read and translated in their usual case; abbreviations, such as `NATO`, stay. So are the
words of titles, such as `Show Hidden Files`, and the first word of a label, such as `Breakfast`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dragoman.kernel.text import Tokenizer
from dragoman.kernel.texts.cutting import Span
from dragoman_serving.fidelity.emphasis import WORD, Emphasis, may_have_capitals
from dragoman_serving.fidelity.letter_case import lower, upper, with_capital
from dragoman_serving.fidelity.literals import without
from dragoman_serving.fidelity.names import names_of
from dragoman_serving.fidelity.phrases import needs_capital

_LETTER, _FIRST = re.compile(r"[^\W\d_]"), re.compile(r"[^\W_]")
_FEWEST_LETTERS = 5
"""A text in capitals with fewer letters may be an acronym."""
_FEWEST_WORDS = 3
"""A text of fewer words without capitals may be a term from a list."""
_MOST_OF_LABEL, _MOST_OF_TITLE = 2, 24
"""Words. In a longer text the first word may be a name, as in `Hope is lost`."""
_LEAST_KNOWN = 2 / 3
"""Share of a title's words that the vocabulary has in small letters as one token."""
_NOUNS_HAVE_CAPITALS = "de", "lb"
_SMALL_IN_TITLES = "a|an|and|as|at|but|by|for|from|in|into|nor|of|off|on|or|the|to|with"
_IN_TITLES = re.compile(
    r"\s(?:Again|All|Any|Are|Be|Been|By|Can|Do|Does|For|From|Has|Have|How|If|Is|It|Its|Me|More|My|"
    "Not|Now|Of|On|Or|Our|Out|Than|That|The|Their|Them|This|To|Up|Was|We|What|When|Where|"
    r"Which|Who|Why|Will|With|You|Your)\b"
)
"""Words that have a capital within a title, but hardly in a name."""
_NAME = re.compile(
    r"(?<!\w)(?:(?:Mrs?|Ms|Miss|Dr|Prof|Sir|Lady|Lord|St|Gen|Sen|Capt|Mme|Mlle|M)\.? (?=[A-Z])"
    r"|(?<=\w\s)No(?:\.|\W*$|\s?[:#])"
    r"|(?:Apple|Chrome|Excel|Office|Oracle|Outlook|Python|Safari|Teams|Times|Windows|Word)(?!\w))"
)
"""Parts of names, also of products that are usual words; and `No` for a number."""
_SMALL_IN_TITLE = re.compile(_SMALL_IN_TITLES)
_NO_TITLE = re.compile(rf" (?!(?:{_SMALL_IN_TITLES})\b)[a-zß-öø-ÿ]")


def may_be_title(text: str, language: str) -> bool:
    """Whether a text may be a title or a label: a quick check, before its words are looked at."""
    if language.startswith(_NOUNS_HAVE_CAPITALS):
        return False
    return _may_be_label(text) or _NO_TITLE.search(text) is None


def _may_be_label(text: str) -> bool:
    return text.count(" ") < _MOST_OF_LABEL and text[-1:] not in ".?!…"


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

    def of(
        self,
        text: str,
        language: str,
        fixed: Sequence[Span] = (),
        target: str = "",
        titles: bool = True,
    ) -> Cased:
        """Returns a sentence as the model reads it.

        Args:
            text: a sentence without tags.
            language: its language code.
            fixed: spans that stay as they are.
            target: language code of its translation.
            titles: whether it may be a title or a label.
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
        elif titles and may_be_title(read, language):
            small = self._without_title(read, fixed, language)
            if small != read:
                begins = next(filter(str.isalpha, text)).isupper()
                return Cased(small, Capitals(only_first=True, language=target) if begins else None)
        return Cased(read, _lost_beginning(text, read, target))

    def in_small_letters(self, text: str, language: str) -> str | None:
        """Returns a label in small letters; None if it has words that the vocabulary lacks so.

        Args:
            text: a sentence as the model reads it.
            language: its language code.
        """
        if language.startswith(_NOUNS_HAVE_CAPITALS) or not _may_be_label(text) or "." in text:
            return None
        if _NAME.search(text) is not None or next(names_of(text, language), None) is not None:
            return None
        small = WORD.sub(lambda word: lower(word[0], language), text)
        are_known = all(
            (word.islower() or _has_capital(word))
            and self._emphasis.tokens(lower(word, language)) == 1
            and not needs_capital(lower(word, language), language)
            for word in WORD.findall(text)
        )
        return small if are_known and small != text else None

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

    def _without_title(self, text: str, fixed: Sequence[Span], language: str) -> str:
        """Writes words of a title in small letters, or the first one of a label.

        Only those that are one token so, and several with a capital. What looks like a title may be
        a name, as `Neil Young` is: most words of a title are one token so, or it has one such as
        `Your`.
        """
        every = list(itertools.islice(WORD.finditer(text), _MOST_OF_TITLE + 1))
        if len(every) > _MOST_OF_TITLE:
            return text
        words = [
            word
            for word in every
            if not any(begin < word.end() and word.start() < end for begin, end in fixed)
        ]
        titled = [word for word in words if _SMALL_IN_TITLE.fullmatch(word[0]) is None]
        capitals = [word for word in titled if _has_capital(word[0])]
        if _NAME.search(text) is not None or not capitals or capitals[0] is not words[0]:
            return text
        small = {word: lower(word[0], language) for word in capitals}
        tokens = {word: self._emphasis.tokens(small[word]) for word in capitals}
        known = sum(number == 1 for number in tokens.values())
        is_title = len(capitals) == len(titled) > 1 and (
            known >= max(2, _LEAST_KNOWN * len(capitals)) or _IN_TITLES.search(text) is not None
        )
        if not is_title and not (_may_be_label(text) and len(capitals) == 1):
            return text
        names = {begin for begin, _ in names_of(text, language)}
        for word in capitals:
            if (
                tokens[word] == 1
                and tokens[word] < self._emphasis.tokens(word[0])
                and word.start() not in names
                and not text.startswith(".", word.end())
                and not needs_capital(small[word], language)
            ):
                text = text[: word.start()] + small[word] + text[word.end() :]
        return text

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


def _has_capital(word: str) -> bool:
    """Whether the first letter of a word is a capital, and no other."""
    return word[0].isupper() and word[1:] == word[1:].lower()


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

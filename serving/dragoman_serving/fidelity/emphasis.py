"""Words in capitals within a sentence that are emphasized, such as `NOT`, and not abbreviations.

The vocabulary decides for words of four letters or more: one that it has as a single token in its
usual case is a word. Shorter ones need a list, since they may be abbreviations (`US`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

from dragoman.kernel.text import Tokenizer
from dragoman.kernel.texts.cutting import Span
from dragoman_serving.fidelity.letter_case import lower, upper, with_capital

WORD = re.compile(r"(?<![\w./@:\\&-])[^\W\d_]+(?:['’][^\W\d_]+)*(?![\w/@\\]|[.:-]\w)")  # noqa: RUF001
"""A word that is not a part of a file name, an address or the like."""
_TWO_CAPITALS = re.compile(r"[^\W\d_a-zß-öø-ÿ]{2}")
"""Also other letters without Latin-1's small ones: a quick check, before words are looked at."""
_FEWEST_OF_CAPITALS, _FEWEST_OF_WORD, _FEWEST_OF_LONG_WORD = 2, 4, 6
"""Letters of a word in capitals; of one that is emphasized if the vocabulary has it as a single
token in its usual case; and of one that is if it has half as many tokens so."""
_WORDS = {
    "de": "achtung aus das dem den der die du ein er es gefahr ich ihr ist ja nein neu nie niemals"
    " nun nur ob oft rot sei sie tot und uns verboten vor vorsicht warnung was wer wichtig wie wir"
    " zu",
    "en": "all and any are big but can caution danger did do few for forbidden had has he her him"
    " his how if is may my new no non nor not now off old one or our out own red she that the to"
    " too two warning was why yes yet you",
    "fr": "ai attention aucun aucune avertissement danger du en est et il ils interdit jamais les"
    " ma mes mon ne ni non nos on oui ou où pas peu qui que sa ses si ta tes ton une vos",
    "bg": "не ни",
    "cs": "ano bez ne",
    "da": "ej må nej",
    "es": "ni no sí sin son",
    "et": "ei",
    "fi": "ei en et älä",
    "hu": "ne nem",
    "it": "mai ma né no non più sì",
    "nl": "nee",
    "pl": "bez nie",
    "pt": "já nem nós não sem sim só",
    "ro": "nu",
    "ru": "не нет ни",
    "sv": "ej nej",
    "uk": "не ні",
}
"""Words by language that are often emphasized and have up to three letters, above all negations,
or may have several tokens."""
_ABBREVIATIONS = (
    "ai aids am cat cd ceo cet co din ec eu guid hast http https ice id it led mit ok pc pin pm"
    " ram rom sim tv uk un us who"
)
_CODE = (
    "alter append binary calc create debug default delete distinct drop enter equal get head host"
    " index infile insert int integer join like load local lock null options order path post put"
    " read rest select sequence set shift show table update where write"
)
"""Words that a vocabulary may have, but which in capitals are seldom used as such. Those of program
code are usual words beside an emphasized one: `DO NOT DELETE THIS FILE`."""
_ROMAN = re.compile(r"m{0,3}(?:cm|cd|d?c{0,3})(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})")
_APOSTROPHE = re.compile("['’]")  # noqa: RUF001
_CODE_BEFORE, _CODE_AFTER = frozenset("$#%<{=+"), frozenset(">}=+({")
"""Characters that make an identifier of the word after or before them."""


def may_have_capitals(text: str) -> bool:
    """Whether a text may have a word in capitals."""
    return _TWO_CAPITALS.search(text) is not None


class Emphasis:
    """Finds emphasized words, with the vocabulary of a model."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Store the tokenizer of the source."""
        self._tokenizer = tokenizer

    def usual(self, word: str, language: str) -> str:
        """Returns a word in small letters with a capital, if that takes fewer tokens."""
        capital = with_capital(word, language)
        return capital if self.tokens(capital) < self.tokens(word) else word

    def tokens(self, word: str) -> int:
        """Returns the number of tokens of a word."""
        return len(self._tokenizer.encode(word))

    def words(self, text: str, language: str, fixed: Sequence[Span] = ()) -> list[tuple[int, str]]:
        """Returns the emphasized words of a text, each as its first index and its usual form.

        Args:
            text: a sentence without tags.
            language: its language code.
            fixed: spans without words, such as placeholders.
        """
        words: list[tuple[int, str]] = []
        for row in _rows_of_capitals(text, fixed):
            are_words = [self._is_word(match[0], language) for match in row]
            words += [
                (match.start(), self.usual(lower(match[0], language), language))
                for match, is_word in zip(row, are_words, strict=True)
                if is_word or (any(are_words) and self._may_be_word(match[0], language))
            ]
        return words

    def _is_word(self, word: str, language: str) -> bool:
        """Whether a word in capitals is a word, whatever stands beside it."""
        *_, end = parts = _APOSTROPHE.split(lower(word, language))
        if parts[1:] and end == "t":  # don't
            return True
        longest = max(parts, key=len)  # l'eau, that's
        if longest in _set(_WORDS.get(language, "")):
            return True
        if len(longest) < _FEWEST_OF_WORD or longest in _set(_CODE) or _is_abbreviation(longest):
            return False
        tokens = self.tokens(self.usual(longest, language))
        is_long = len(longest) >= _FEWEST_OF_LONG_WORD
        return tokens == 1 or (is_long and 2 * tokens <= self.tokens(upper(longest, language)))

    def _may_be_word(self, word: str, language: str) -> bool:
        """Whether a word beside an emphasized one is a word as well."""
        word = lower(word, language)
        return not _is_abbreviation(word) and self.tokens(self.usual(word, language)) == 1


def in_usual_case(text: str, language: str, tokenizer: Tokenizer) -> str:
    """Returns the beginning of a sentence in capitals as a model writes it."""
    emphasis = Emphasis(tokenizer)
    small = WORD.sub(lambda word: emphasis.usual(word[0], language), lower(text, language))
    return with_capital(small, language)


@functools.cache
def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _is_abbreviation(word: str) -> bool:
    return word in _set(_ABBREVIATIONS) or _ROMAN.fullmatch(word) is not None


def _rows_of_capitals(text: str, fixed: Sequence[Span]) -> Iterator[list[re.Match[str]]]:
    """Yields words in capitals that only spaces separate, without identifiers."""
    row: list[re.Match[str]] = []
    for match in WORD.finditer(text):
        begin, end = match.span()
        if (
            end - begin < _FEWEST_OF_CAPITALS
            or not match[0].isupper()
            or text[begin - 1 : begin] in _CODE_BEFORE
            or text[end : end + 1] in _CODE_AFTER
            or any(begin < b and a < end for a, b in fixed)
        ):
            continue
        if row and text[row[-1].end() : begin].strip():
            yield row
            row = []
        row.append(match)
    if row:
        yield row

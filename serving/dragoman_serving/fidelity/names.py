"""Recognizes names that no word list of their language has, such as `Kuno` or `Brandvold`.

A weak model often writes another word for a rare name, or omits it. A list has the words that
translations replace, also names such as `Munich`, and the frequent ones, such as `Berlin`; it is a
Bloom filter made from parallel text. So a word with a capital that it lacks is most likely a name
that translations repeat.

Source: Bloom 1970, https://doi.org/10.1145/362686.362692
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Final, Self

from dragoman.kernel.texts.cutting import Span

LISTS: Final = Path(__file__).parent / "word_lists"
"""Folder with a file for each language that has a list."""
_BITS_OF_WORD, _HASHES = 10, 7
"""One of 120 other words is in a list by mistake."""
_NAME = re.compile(
    r"(?<![\w@#&./~\\-])(?:[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ]{2,39}|[A-ZÀ-ÖØ-Þ]{5,39})(?![\w@/(:~\\-]|[.]\w)"
)
_LONG = 6
"""Least length of a word whose forms are in a list if the word without its ending is."""
_PREFIX = re.compile("(?:auto|de|dis|in|inter|multi|non|over|pre|re|sub|super|un|under)(?=.{4})")


@dataclass(frozen=True)
class WordList:
    """A set of words.

    Attributes:
        bits: the Bloom filter.
    """

    bits: bytes

    @classmethod
    def of(cls, words: Iterable[str]) -> Self:
        """Make a list of plain words."""
        every = list(words)
        bits = bytearray(len(every) * _BITS_OF_WORD // 8 + 1)
        for word in every:
            for bit in _bits_of(word, len(bits) * 8):
                bits[bit >> 3] |= 1 << (bit & 7)
        return cls(bytes(bits))

    def __contains__(self, word: object) -> bool:
        """Whether a plain word is in the list, or, seldom, another one with the same bits."""
        own = _bits_of(str(word), len(self.bits) * 8)
        return all(self.bits[bit >> 3] >> (bit & 7) & 1 for bit in own)

    def has_form_of(self, word: str) -> bool:
        """Whether a plain word, or one without its ending or prefix, is in the list."""
        forms = [word]
        if len(word) >= _LONG:
            forms += (word[:-1], word[:-2])
        if (prefix := _PREFIX.match(word)) is not None:
            forms.append(word[prefix.end() :])
        return any(form in self for form in forms)


def _bits_of(word: str, number_of_bits: int) -> Iterator[int]:
    """Yields the indices of a word's bits in a filter."""
    digest = int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little")
    first, step = digest & 0xFFFFFFFF, digest >> 32 | 1
    return ((first + index * step) % number_of_bits for index in range(_HASHES))


def plain(text: str) -> str:
    """Returns a text in small letters without accents: `Zurich` is `Zürich`."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFD", text.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


@lru_cache
def _list_of(language: str) -> WordList | None:
    path = LISTS / f"{language}.words"
    return WordList(path.read_bytes()) if path.is_file() else None


@lru_cache(maxsize=4096)
def is_name(word: str, language: str) -> bool:
    """Whether a word with a capital is most likely a name; False for languages without a list."""
    words = _list_of(language)
    return words is not None and not words.has_form_of(plain(word))


def names_of(text: str, language: str) -> Iterator[Span]:
    """Yields the spans of the names of a text that translations repeat, also in capitals."""
    names = () if text.isupper() else _NAME.finditer(text)
    return (match.span() for match in names if is_name(match[0], language))

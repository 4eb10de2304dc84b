"""Words that a translation must not hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from dragoman_serving.engine.arrays import Floats

_SPACE = "▁"


class SuppressedWords:
    """See `Rule`: forbids each token with which a word, or several in a row, would be whole.

    In whatever pieces it is spelt. What begins with it is forbidden too where a piece ends with it;
    other pieces may still spell that.
    """

    def __init__(self, words: Sequence[str], pieces: tuple[str, ...]) -> None:
        """Find the tokens with which the words can end.

        Args:
            words: as a translation would spell them, upper and lower case told apart.
            pieces: the vocabulary's [V].
        """
        self._words = tuple(words)
        self._pieces = pieces
        self._always: list[int] = []
        """Tokens that hold a word, and what is before it."""
        self._behind: dict[str, list[int]] = {}
        """Tokens that make a word whole, by what of it must stand before them."""
        endings = _by_ending(pieces)
        for word in (word.replace(" ", _SPACE) for word in words):
            for token in endings.get(word, ()):
                before = pieces[token][: -len(word)]
                if before and not before[-1].isalnum():
                    self._always.append(token)
            for length in range(len(word)):
                of_word = [i for i in endings.get(word[length:], ()) if pieces[i] == word[length:]]
                if of_word:
                    self._behind.setdefault(word[:length], []).extend(of_word)
        self._longest = max(map(len, self._behind), default=0)

    def __repr__(self) -> str:
        return f"SuppressedWords({self._words})"

    def apply(self, said: tuple[int, ...], scores: Floats) -> None:
        """See `Rule`."""
        scores[self._always] = -math.inf
        text = self._end_of(said)
        for length in range(min(self._longest, len(text)) + 1):
            beginning = text[len(text) - length :]
            before = text[len(text) - length - 1 : len(text) - length]
            if not before.isalnum() and (tokens := self._behind.get(beginning)):
                scores[tokens] = -math.inf

    def _end_of(self, said: tuple[int, ...]) -> str:
        """The last characters of what was said, one more than a beginning has."""
        text = ""
        for token in reversed(said):
            text = self._pieces[token] + text
            if len(text) > self._longest:
                break
        return text


@lru_cache(maxsize=4)
def _by_ending(pieces: tuple[str, ...]) -> Mapping[str, Sequence[int]]:
    """Tokens by each ending of their pieces."""
    found: dict[str, list[int]] = {}
    for token, piece in enumerate(pieces):
        for begin in range(len(piece)):
            found.setdefault(piece[begin:], []).append(token)
    return found

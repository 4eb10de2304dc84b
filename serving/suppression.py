"""Words that a translation must not hold.

Knows the vocabulary's pieces; must not know how translations are searched for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from serving.engine.cache import Floats

_SPACE = "▁"


class SuppressedWords:
    """See `Rule`: forbids each token with which a word, or several in a row, would be whole.

    In whatever pieces it is spelt. What begins with it is forbidden too where a piece ends with it;
    other pieces may still spell that.
    """

    def __init__(self, words: Sequence[str], pieces: Sequence[str]) -> None:
        """Find the tokens with which the words can end.

        Args:
            words: as a translation would spell them, upper and lower case told apart.
            pieces: the vocabulary's [V].
        """
        self._words = tuple(words)
        self._pieces = pieces
        self._endings = [
            (word, [i for i, piece in enumerate(pieces) if piece and _may_end(word, piece)])
            for word in (word.replace(" ", _SPACE) for word in words)
        ]

    def __repr__(self) -> str:
        return f"SuppressedWords({self._words})"

    def apply(self, said: tuple[int, ...], scores: Floats) -> None:
        """See `Rule`."""
        text = "".join(self._pieces[token] for token in said)
        for word, endings in self._endings:
            scores[[i for i in endings if _ends_in(text + self._pieces[i], word)]] = -math.inf


def _may_end(word: str, piece: str) -> bool:
    return word.endswith(piece) or piece.endswith(word)


def _ends_in(text: str, word: str) -> bool:
    before = len(text) - len(word)
    return text.endswith(word) and not (before and text[before - 1].isalnum())

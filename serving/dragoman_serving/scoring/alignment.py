"""Which words of a text its translation's words come from, by where the model looked."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dragoman.kernel.text import Piece

_WORD = re.compile(r"\S+")
"""As `str.split` has them."""
_DIGITS = 4
"""Of a weight: more would make an answer longer and say no more."""


@dataclass(frozen=True)
class Linked:
    """A sentence of a text with its translation.

    `weights` [T, S] is how much each target piece looked at each source piece; `source_begin` and
    `target_begin` are where the sentence begins in the two texts.
    """

    source: Sequence[Piece]
    target: Sequence[Piece]
    weights: npt.NDArray[np.float32]
    source_begin: int = 0
    target_begin: int = 0


class Words:
    """The words of a text, as `str.split` cuts it, by their places."""

    def __init__(self, text: str) -> None:
        """Cut a text."""
        self._ends = [found.end() for found in _WORD.finditer(text)]

    def __len__(self) -> int:
        """How many there are."""
        return len(self._ends)

    def at(self, place: int) -> int | None:
        """The word of the first character from a place on that is in one; None if there is none.

        A piece begins with the white space before its word.
        """
        if not self._ends:
            return None
        return min(bisect_right(self._ends, place), len(self._ends) - 1)


def moses_pairs(source: str, target: str, sentences: Sequence[Linked]) -> str:
    """Links between words, such as `0-0 1-2`: of each target piece to what it looked at most.

    A piece of punctuation looks at nothing in particular: it is left out if its word has others.

    Args:
        source: the whole text.
        target: its whole translation.
        sentences: of both.
    """
    source_words, target_words = Words(source), Words(target)
    links: set[tuple[int, int]] = set()
    of_punctuation: set[tuple[int, int]] = set()
    for sentence in sentences:
        if not sentence.weights.size:
            continue
        for piece, best in zip(sentence.target, sentence.weights.argmax(axis=1), strict=True):
            src = source_words.at(sentence.source_begin + sentence.source[best].begin)
            tgt = target_words.at(sentence.target_begin + piece.begin)
            if src is not None and tgt is not None:
                says_something = any(map(str.isalnum, piece.text))
                (links if says_something else of_punctuation).add((src, tgt))
    linked = {tgt for _, tgt in links}
    links |= {(src, tgt) for src, tgt in of_punctuation if tgt not in linked}
    return " ".join(f"{src}-{tgt}" for src, tgt in sorted(links))


def soft_json(sentences: Sequence[Linked]) -> str:
    """Pieces of both sides, and a row of weights over the source's for each of the target's."""
    source = [piece.text for sentence in sentences for piece in sentence.source]
    target = [piece.text for sentence in sentences for piece in sentence.target]
    weights = np.zeros((len(target), len(source)))
    row = column = 0
    for sentence in sentences:  # a sentence's words come from its own source alone
        rows, columns = sentence.weights.shape
        weights[row : row + rows, column : column + columns] = sentence.weights
        row, column = row + rows, column + columns
    found = {"source": source, "target": target, "weights": weights.round(_DIGITS).tolist()}
    return json.dumps(found, ensure_ascii=False)

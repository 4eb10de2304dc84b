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


@dataclass(frozen=True)
class WordLinks:
    """Links between words: pairs of a source word and a target word, counted from 0."""

    pairs: frozenset[tuple[int, int]]

    def __str__(self) -> str:
        """As Moses writes them, such as `0-0 1-2`."""
        return " ".join(f"{src}-{tgt}" for src, tgt in sorted(self.pairs))

    def after(self, first: WordLinks) -> WordLinks:
        """Links over a text between: of its words' sources to their targets.

        Args:
            first: links of the source text to the one between, which is the source of these.
        """
        sources: dict[int, list[int]] = {}
        for src, between in first.pairs:
            sources.setdefault(between, []).append(src)
        return WordLinks(
            frozenset((src, tgt) for between, tgt in self.pairs for src in sources.get(between, ()))
        )


@dataclass(frozen=True, eq=False)
class PieceWeights:
    """How much each target piece looked at each source piece.

    Attributes:
        source: pieces of the source text.
        target: pieces of the target text.
        weights: [T, S].
        source_spans: [S, 2], begin and end of each source piece, in characters other than white
            space: line breaks of wrapped lines, which move when a text is put together, do not
            count.
        target_spans: [T, 2].
    """

    source: Sequence[str]
    target: Sequence[str]
    weights: npt.NDArray[np.float64]
    source_spans: npt.NDArray[np.int64]
    target_spans: npt.NDArray[np.int64]

    def __str__(self) -> str:
        """JSON."""
        found = {
            "source": self.source,
            "target": self.target,
            "weights": self.weights.round(_DIGITS).tolist(),
        }
        return json.dumps(found, ensure_ascii=False)

    def after(self, first: PieceWeights) -> PieceWeights:
        """Weights over a text between: the product of both.

        Two vocabularies may cut the text between in different ways. So a piece of it has the mean
        of the weights of the other one's pieces that it overlaps with, by characters.

        Args:
            first: weights of the text between, which is the source of these, on the source text.
        """
        carried = np.zeros((len(self.source), len(first.source)))
        begins, ends = first.target_spans.T
        for row, (begin, end) in zip(carried, self.source_spans, strict=True):
            last = max(end, begin + 1)  # white space alone counts to the character behind it
            overlaps = np.minimum(ends, last) - np.maximum(begins, begin)
            (indices,) = np.nonzero(overlaps > 0)
            if indices.size:
                row[:] = np.average(first.weights[indices], axis=0, weights=overlaps[indices])
        return PieceWeights(
            *(first.source, self.target, self.weights @ carried),
            *(first.source_spans, self.target_spans),
        )


Alignment = WordLinks | PieceWeights


def composed(first: Alignment | None, second: Alignment | None) -> Alignment | None:
    """Two alignments of one form, one after the other; None if there are none."""
    if isinstance(first, WordLinks) and isinstance(second, WordLinks):
        return second.after(first)
    if isinstance(first, PieceWeights) and isinstance(second, PieceWeights):
        return second.after(first)
    return None


def word_links(source: str, target: str, sentences: Sequence[Linked]) -> WordLinks:
    """Links between words: of each target piece to what it looked at most.

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
    return WordLinks(frozenset(links))


def piece_weights(source: str, target: str, sentences: Sequence[Linked]) -> PieceWeights:
    """Pieces of both sides, and a row of weights over the source's for each of the target's.

    Args:
        source: the whole text.
        target: its whole translation.
        sentences: of both.
    """
    source_spans = [(one.source_begin, piece) for one in sentences for piece in one.source]
    target_spans = [(one.target_begin, piece) for one in sentences for piece in one.target]
    weights = np.zeros((len(target_spans), len(source_spans)))
    row = column = 0
    for sentence in sentences:  # a sentence's words come from its own source alone
        rows, columns = sentence.weights.shape
        weights[row : row + rows, column : column + columns] = sentence.weights
        row, column = row + rows, column + columns
    return PieceWeights(
        [piece.text for _, piece in source_spans],
        [piece.text for _, piece in target_spans],
        weights,
        _spans(source, source_spans),
        _spans(target, target_spans),
    )


def _spans(text: str, pieces: Sequence[tuple[int, Piece]]) -> npt.NDArray[np.int64]:
    """Begin and end of pieces [N, 2], each behind a begin, without what is white space."""
    solid = np.cumsum([0, *(not character.isspace() for character in text)])
    spans = [(begin + piece.begin, begin + piece.end) for begin, piece in pieces]
    found: npt.NDArray[np.int64] = solid[
        np.array(spans, np.int64).reshape(-1, 2).clip(0, len(text))
    ]
    return found

"""Alignments of a text with its translation, from the model's attention."""

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
"""The same words as with `str.split`."""
_DIGITS = 4
"""Decimals of a weight: more would only make answers longer."""


@dataclass(frozen=True)
class Linked:
    """A sentence of a text with its translation.

    `weights` [T, S] is the attention of each target token to each source token; `source_begin` and
    `target_begin` are the positions of the sentence in the two texts.
    """

    source: Sequence[Piece]
    target: Sequence[Piece]
    weights: npt.NDArray[np.float32]
    source_begin: int = 0
    target_begin: int = 0


class Words:
    """The words of a text, as from `str.split`, by position."""

    def __init__(self, text: str) -> None:
        """Split a text."""
        self._ends = [match.end() for match in _WORD.finditer(text)]

    def __len__(self) -> int:
        """Number of words."""
        return len(self._ends)

    def at(self, place: int) -> int | None:
        """Returns the index of the word at or after a position; None if there are no words.

        A subword token begins with the white space before its word.
        """
        if not self._ends:
            return None
        return min(bisect_right(self._ends, place), len(self._ends) - 1)


@dataclass(frozen=True)
class WordLinks:
    """Links between words: pairs of a source word and a target word, by indices from 0."""

    pairs: frozenset[tuple[int, int]]

    def __str__(self) -> str:
        """The format of Moses, such as `0-0 1-2`."""
        return " ".join(f"{src}-{tgt}" for src, tgt in sorted(self.pairs))

    def after(self, first: WordLinks) -> WordLinks:
        """Returns the composition of two links through an intermediate text.

        Args:
            first: links from the source text to the intermediate text, the source of these links.
        """
        sources: dict[int, list[int]] = {}
        for src, between in first.pairs:
            sources.setdefault(between, []).append(src)
        return WordLinks(
            frozenset((src, tgt) for between, tgt in self.pairs for src in sources.get(between, ()))
        )


@dataclass(frozen=True, eq=False)
class PieceWeights:
    """Attention of each target token to each source token.

    Attributes:
        source: subword tokens of the source text.
        target: subword tokens of the target text.
        weights: [T, S].
        source_spans: [S, 2], begin and end of each source token. White space is not counted,
            because line breaks of wrapped lines move when a translation is composed.
        target_spans: [T, 2].
    """

    source: Sequence[str]
    target: Sequence[str]
    weights: npt.NDArray[np.float64]
    source_spans: npt.NDArray[np.int64]
    target_spans: npt.NDArray[np.int64]

    def __str__(self) -> str:
        """The weights as JSON."""
        fields = {
            "source": self.source,
            "target": self.target,
            "weights": self.weights.round(_DIGITS).tolist(),
        }
        return json.dumps(fields, ensure_ascii=False)

    def after(self, first: PieceWeights) -> PieceWeights:
        """Returns the composition through an intermediate text: the product of both weights.

        Two vocabularies may split the intermediate text in different ways. So each of its tokens
        gets the mean weights of the other vocabulary's tokens that it overlaps, by characters.

        Args:
            first: weights of the intermediate text, the source of these, on the source text.
        """
        carried = np.zeros((len(self.source), len(first.source)))
        begins, ends = first.target_spans.T
        for row, (begin, end) in zip(carried, self.source_spans, strict=True):
            last = max(end, begin + 1)  # white space alone belongs to the next character
            overlaps = np.minimum(ends, last) - np.maximum(begins, begin)
            (indices,) = np.nonzero(overlaps > 0)
            if indices.size:
                row[:] = np.average(first.weights[indices], axis=0, weights=overlaps[indices])
        return PieceWeights(
            source=first.source,
            target=self.target,
            weights=self.weights @ carried,
            source_spans=first.source_spans,
            target_spans=self.target_spans,
        )


Alignment = WordLinks | PieceWeights


def composed(first: Alignment | None, second: Alignment | None) -> Alignment | None:
    """Returns the composition of two alignments of the same form; None if there are none."""
    if isinstance(first, WordLinks) and isinstance(second, WordLinks):
        return second.after(first)
    if isinstance(first, PieceWeights) and isinstance(second, PieceWeights):
        return second.after(first)
    return None


def word_links(source: str, target: str, sentences: Sequence[Linked]) -> WordLinks:
    """Returns links between words: each target token is linked to its most attended source token.

    Punctuation has no reliable attention, so it is left out if its word has other tokens.

    Args:
        source: the whole text.
        target: its whole translation.
        sentences: their sentences.
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
    """Returns the tokens of both sides, and the attention of target to source tokens.

    Args:
        source: the whole text.
        target: its whole translation.
        sentences: their sentences.
    """
    source_spans = [
        (sentence.source_begin, piece) for sentence in sentences for piece in sentence.source
    ]
    target_spans = [
        (sentence.target_begin, piece) for sentence in sentences for piece in sentence.target
    ]
    weights = np.zeros((len(target_spans), len(source_spans)))
    row = column = 0
    for sentence in sentences:  # a sentence attends only to its own source
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
    """Begin and end of pieces [N, 2], relative to the text, not counting white space."""
    solid = np.cumsum([0, *(not character.isspace() for character in text)])
    spans = [(begin + piece.begin, begin + piece.end) for begin, piece in pieces]
    offsets: npt.NDArray[np.int64] = solid[
        np.array(spans, np.int64).reshape(-1, 2).clip(0, len(text))
    ]
    return offsets

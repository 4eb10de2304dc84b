"""Rates attention heads by anchors.

Anchors are words whose correct links are known without human alignments: words that are spelt alike
in both languages, such as names and numbers, and that occur once on each side of a pair. Heads are
rated by their links of these.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from dragoman_serving.scoring.score_graphs import ScoreGraph
from dragoman_serving.scoring.token_pair import Floats, TokenPair, like_lengths

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Criterion, Manifest
from dragoman.kernel.text import Tokenizer, tokens_of

_WORD = re.compile(r"[^\W_]+")
_FEWEST_ANCHORS = 50
"""With fewer anchors, the choice would be random."""
_TOGETHER = 512
"""Number of pairs sorted by length together."""

Bools = npt.NDArray[np.bool_]


class TooFewAnchors(UsageError):
    """A text has too few anchors for a choice."""


@dataclass(frozen=True)
class Anchors:
    """N target tokens whose source tokens are known.

    `said` and `read` [N, L, H, S] are each head's attention to the S source tokens at the step that
    generates the token, and at the step that reads it; `right` [N, S] marks the correct source
    tokens. `places` [N] are the source positions of the diagonal.
    """

    said: Floats
    read: Floats
    right: Bools
    places: npt.NDArray[np.int64]

    criterion: ClassVar[Criterion] = "anchors"

    @property
    def count(self) -> int:
        """Number N."""
        return len(self.right)

    @property
    def heads(self) -> list[tuple[int, int]]:
        """All heads of the decoder, as layer and head."""
        _, layers, places, _ = self.said.shape
        return list(product(range(layers), range(places)))

    @property
    def diagonal(self) -> Floats:
        """Weights [N, S] that are 1 at the source position proportional to the target position."""
        return np.eye(self.right.shape[1], dtype=np.float32)[self.places]

    def looked(self, head: tuple[int, int], when_read: bool) -> Floats:
        """Weights [N, S] of a head."""
        attention = self.read if when_read else self.said
        return attention[:, *head]

    def value(self, weights: Floats) -> float:
        """Share of the anchors that weights [N, S] link correctly."""
        return accuracy_of(weights, self.right)

    def report(self, weights: Floats) -> str:
        """The share as text."""
        return f"{self.value(weights):.1%} of {self.count} anchors right"


def anchors_of(source: str, target: str) -> Iterator[tuple[re.Match[str], re.Match[str]]]:
    """Words that occur once in each text of a pair and are spelt alike, ignoring case."""
    sides = []
    for text in (source, target):
        words = list(_WORD.finditer(text))
        counts = collections.Counter(word[0].casefold() for word in words)
        sides.append({w[0].casefold(): w for w in words if counts[w[0].casefold()] == 1})
    for spelling, word in sides[0].items():
        if spelling in sides[1]:
            yield word, sides[1][spelling]


def find_anchors(
    bundle: Path,
    pairs: Sequence[Sequence[str]],
    directions: Sequence[tuple[str, ...]],
    on_progress: Callable[[int], None] = lambda _done: None,
) -> Anchors:
    """Run a bundle's graph on a text and record the attention at its anchors.

    Args:
        bundle: folder of a bundle.
        pairs: sentences in the languages of the first direction, the source first.
        directions: source and target language, of one direction or of it and its reverse.
        on_progress: called at intervals with the number of pairs done in all directions.

    Raises:
        TooFewAnchors: there are too few for a choice.
    """
    manifest = Manifest.load(bundle)
    tokenizer = manifest.open_tokenizer(bundle)
    graph = ScoreGraph(bundle, manifest)
    anchors: list[_Anchor] = []
    examples = [
        _Example.of(tokenizer, pair[side], pair[1 - side], target)
        for side, (_, target) in enumerate(directions)
        for pair in pairs
    ]
    done = len(examples)
    examples = [example for example in examples if example.anchors and example.fits(manifest)]
    done -= len(examples)
    for begin in range(0, len(examples), _TOGETHER):
        chunk = sorted(examples[begin : begin + _TOGETHER], key=lambda example: example.lengths)
        for group in like_lengths([example.lengths for example in chunk]):
            _, attention = graph.run_all([example.pair for example in chunk[group]])
            for example, own_attention in zip(chunk[group], attention, strict=True):
                anchors += example.look(own_attention)
        done += len(chunk)
        on_progress(done)
    if len(anchors) < _FEWEST_ANCHORS:
        raise TooFewAnchors(
            f"the text has {len(anchors)} anchors, words that are spelt alike on both sides, less "
            f"than {_FEWEST_ANCHORS}: give a longer text"
        )
    return _stack(anchors)


def accuracy_of(weights: Floats, right: Bools) -> float:
    """Share of rows [N, S] whose largest weight is at a correct position."""
    return float(right[np.arange(len(right)), weights.argmax(axis=1)].mean())


@dataclass(frozen=True)
class _Anchor:
    """One row of `Anchors`, not yet padded."""

    said: Floats
    read: Floats
    right: Bools
    place: int


@dataclass(frozen=True)
class _Example:
    """A pair with its anchors: target token, and the source tokens that it comes from."""

    pair: TokenPair
    anchors: tuple[tuple[int, frozenset[int]], ...]
    tags: int
    """Number of source ids before the text."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, source: str, target: str, language: str) -> _Example:
        src, tgt = tokenizer.pieces(source), tokenizer.target.pieces(target)
        src_ids = tuple(tokenizer.encode_source(source, language))
        anchors = [
            (piece, frozenset(tokens_of(word, src)))
            for word, other in anchors_of(source, target)
            for piece in tokens_of(other, tgt)
        ]
        return cls(
            TokenPair(src_ids, tuple(piece.id for piece in tgt)), tuple(anchors), tokenizer.tags
        )

    @property
    def lengths(self) -> tuple[int, int]:
        return len(self.pair.tgt_ids) + 1, len(self.pair.src_ids)

    def fits(self, manifest: Manifest) -> bool:
        steps, source = self.lengths
        limits = manifest.limits
        return steps <= limits.max_target_tokens and source <= limits.max_source_tokens

    def look(self, attention: Floats) -> Iterator[_Anchor]:
        """Its anchors, with the attention [L, H, T + 1, S] of their steps."""
        length = len(self.pair.src_ids) - self.tags - 1
        for piece, right_pieces in self.anchors:
            right = np.zeros(length, bool)
            right[list(right_pieces)] = True
            yield _Anchor(
                # Without tag and end symbol; copied, since a view would keep the whole array.
                attention[:, :, piece, self.tags : -1].copy(),
                attention[:, :, piece + 1, self.tags : -1].copy(),
                right,
                int((piece + 0.5) / len(self.pair.tgt_ids) * length),
            )


def _stack(anchors: Sequence[_Anchor]) -> Anchors:
    longest = max(len(anchor.right) for anchor in anchors)

    def padded(rows: Sequence[npt.NDArray[np.generic]]) -> npt.NDArray[np.generic]:
        stacked = np.zeros((len(rows), *rows[0].shape[:-1], longest), rows[0].dtype)
        for row, values in zip(stacked, rows, strict=True):
            row[..., : values.shape[-1]] = values
        return stacked

    return Anchors(
        padded([anchor.said for anchor in anchors]).astype(np.float32),
        padded([anchor.read for anchor in anchors]).astype(np.float32),
        padded([anchor.right for anchor in anchors]).astype(np.bool_),
        np.array([anchor.place for anchor in anchors]),
    )

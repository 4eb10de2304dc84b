"""Rates attention heads by the agreement of the alignments in a model's two directions.

Whether a link is correct does not depend on the direction of translation, so heads that attend to
the right tokens give the same links both ways. Heads that attend to positions, whatever the tokens,
also agree; but they agree as much if the links of one direction come from another pair of the same
lengths. What counts is the agreement beyond that.

Source: Liang et al. 2006, https://aclanthology.org/N06-1014/, for agreement of two directions
instead of human alignments; Cohen 1960, https://doi.org/10.1177/001316446002000104, for agreement
beyond chance.
"""

from __future__ import annotations

import collections
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
from dragoman.kernel.manifest import Criterion, Limits, Manifest
from dragoman.kernel.text import Tokenizer

_FEWEST_PAIRS = 50
"""With fewer pairs, the choice would be random."""

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LikePairs:
    """P pairs, at least two, of S tokens on the first side and T on the second.

    `forward` [P, L, H, T + 1, S] is each head's attention to the first side's tokens when
    translating from it, at the steps that generate the second side's; `backward` [P, L, H, S + 1,
    T] is the reverse direction.
    """

    forward: Floats
    backward: Floats

    @property
    def lengths(self) -> tuple[int, int]:
        """S and T."""
        return self.forward.shape[-1], self.backward.shape[-1]


@dataclass(frozen=True)
class Agreement:
    """F1 of the links of two directions: for the same pairs, and for others of equal lengths."""

    same: float
    by_position: float

    @property
    def beyond(self) -> float:
        """The agreement beyond position, scaled so that full agreement is 1."""
        if self.by_position == 1:
            return 0.0
        return (self.same - self.by_position) / (1 - self.by_position)


@dataclass(frozen=True)
class BothDirections:
    """A model's attention when it translates pairs in both directions.

    Weights, of one head or of several, are [N]: for each group in turn, first the [P, T, S] of the
    first direction, then the [P, S, T] of the second.
    """

    groups: tuple[LikePairs, ...]

    criterion: ClassVar[Criterion] = "agreement"

    @property
    def count(self) -> int:
        """Number of pairs."""
        return sum(len(group.forward) for group in self.groups)

    @property
    def heads(self) -> list[tuple[int, int]]:
        """All heads of the decoder, as layer and head."""
        _, layers, places, _, _ = self.groups[0].forward.shape
        return list(product(range(layers), range(places)))

    @property
    def diagonal(self) -> Floats:
        """Weights [N] that are 1 at the source position proportional to the target position."""
        parts = []
        for group in self.groups:
            src, tgt = group.lengths
            for from_length, to_length in ((tgt, src), (src, tgt)):
                places = ((np.arange(from_length) + 0.5) / from_length * to_length).astype(int)
                weights = np.eye(to_length, dtype=np.float32)[places]
                parts.append(np.tile(weights.ravel(), len(group.forward)))
        return np.concatenate(parts)

    def looked(self, head: tuple[int, int], when_read: bool) -> Floats:
        """Weights [N] of a head."""
        steps = slice(1, None) if when_read else slice(-1)
        return np.concatenate(
            [
                attention[:, *head, steps].ravel()
                for group in self.groups
                for attention in (group.forward, group.backward)
            ]
        )

    def agreement(self, weights: Floats) -> Agreement:
        """Agreement of the links by weights [N]; each token is linked to its largest weight."""
        links = same = by_position = 0
        for to_src, to_tgt in self._links(weights):
            links += to_src.size + to_tgt.size
            same += _shared(to_src, to_tgt)
            # Compare with a pair half the group away: neighbours in a text often have similar
            # content.
            by_position += _shared(to_src, np.roll(to_tgt, len(to_tgt) // 2, axis=0))
        return Agreement(2 * same / links, 2 * by_position / links)

    def value(self, weights: Floats) -> float:
        """Agreement beyond position."""
        return self.agreement(weights).beyond

    def report(self, weights: Floats) -> str:
        """The agreement as text."""
        agreement = self.agreement(weights)
        return (
            f"agreement {agreement.beyond:.3f} beyond position ({agreement.same:.1%} of links, "
            f"{agreement.by_position:.1%} by position alone)"
        )

    def _links(self, weights: Floats) -> Iterator[tuple[Ids, Ids]]:
        """For each group, the source token of each target token [P, T], and the reverse [P, S]."""
        begin = 0
        for group in self.groups:
            pairs, (src, tgt) = len(group.forward), group.lengths
            middle = begin + pairs * tgt * src
            end = middle + pairs * src * tgt
            forward = weights[begin:middle].reshape(pairs, tgt, src)
            backward = weights[middle:end].reshape(pairs, src, tgt)
            yield forward.argmax(axis=2), backward.argmax(axis=2)
            begin = end


def look_both_ways(
    bundle: Path,
    pairs: Sequence[Sequence[str]],
    languages: tuple[str, str],
    on_progress: Callable[[int], None] = lambda _done: None,
) -> BothDirections:
    """Run a bundle's graph on a text, in both directions.

    Only pairs that share their lengths with another pair are used, each once.

    Args:
        bundle: folder of a bundle.
        pairs: sentences in two languages.
        languages: these languages.
        on_progress: called at intervals with the number of pairs done.

    Raises:
        UsageError: there are too few such pairs for a choice.
    """
    manifest = Manifest.load(bundle)
    tokenizer = manifest.open_tokenizer(bundle)
    by_lengths: dict[tuple[int, int], list[_Example]] = collections.defaultdict(list)
    for src, tgt in dict.fromkeys((pair[0], pair[1]) for pair in pairs):
        example = _Example.of(tokenizer, (src, tgt), languages)
        if example.fits(manifest.limits):
            by_lengths[example.lengths].append(example)
    groups = [by_lengths[lengths] for lengths in sorted(by_lengths) if len(by_lengths[lengths]) > 1]
    count = sum(map(len, groups))
    if count < _FEWEST_PAIRS:
        raise UsageError(
            f"only {count} pairs of the text share their lengths with another, less than "
            f"{_FEWEST_PAIRS}: give a longer text"
        )
    graph = ScoreGraph(bundle, manifest)
    done = len(pairs) - count
    looked = []
    for group in groups:
        forward, backward = (
            _look(graph, [example.ways[side] for example in group]) for side in (0, 1)
        )
        looked.append(LikePairs(forward, backward))
        done += len(group)
        on_progress(done)
    return BothDirections(tuple(looked))


def _look(graph: ScoreGraph, pairs: Sequence[TokenPair]) -> Floats:
    """Attention [P, L, H, T + 1, S] of pairs of the same lengths, without tag and end symbol."""
    lengths = [(len(pair.tgt_ids) + 1, len(pair.src_ids)) for pair in pairs]
    parts: list[Floats] = []
    for together in like_lengths(lengths):
        _, attention = graph.run_all(pairs[together])
        parts.append(np.stack(attention)[..., 1:-1])
    return np.concatenate(parts)


def _shared(to_src: Ids, to_tgt: Ids) -> int:
    """Number of links that are in both [P, T] and [P, S]."""
    there_and_back = np.take_along_axis(to_tgt, to_src, axis=1)
    return int((there_and_back == np.arange(to_src.shape[1])).sum())


@dataclass(frozen=True)
class _Example:
    """A pair as input of the graph, in both directions."""

    ways: tuple[TokenPair, TokenPair]

    @classmethod
    def of(cls, tokenizer: Tokenizer, texts: tuple[str, str], languages: Sequence[str]) -> _Example:
        def pair_from(side: int) -> TokenPair:
            src_ids = tokenizer.encode_source(texts[side], languages[1 - side])
            return TokenPair(tuple(src_ids), tuple(tokenizer.target.encode(texts[1 - side])))

        return cls((pair_from(0), pair_from(1)))

    @property
    def lengths(self) -> tuple[int, int]:
        """S and T."""
        forward, backward = self.ways
        return len(backward.tgt_ids), len(forward.tgt_ids)

    def fits(self, limits: Limits) -> bool:
        shortest, longest = min(self.lengths), max(self.lengths)
        most = min(limits.most_text_tokens, limits.max_target_tokens - 1)
        return shortest > 0 and longest <= most

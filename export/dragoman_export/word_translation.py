"""IBM model 1: the target tokens that a source token is translated to.

Source: Brown et al. 1993, https://aclanthology.org/J93-2003, model 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Pair = tuple[Sequence[int], Sequence[int]]
"""Source and target ids, neither of them empty."""
Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

ROUNDS = 5
"""Rounds of expectation maximization; after these, lists change little."""
_TOGETHER = 5000
"""Pairs of a chunk; bounds the memory of a computation."""


@dataclass(frozen=True)
class Links:
    """Expected number of times that tokens are translated to others, for N pairs of tokens.

    Attributes:
        src_ids: [N], increasing.
        tgt_ids: [N].
        counts: [N].
    """

    src_ids: Ids
    tgt_ids: Ids
    counts: Floats


@dataclass(frozen=True)
class _Chunk:
    """The links of some pairs: `links` [L] index the distinct links, `begins` [T] target tokens."""

    links: npt.NDArray[np.int32]
    begins: Ids

    @property
    def lengths(self) -> Ids:
        """Number of links of each target token [T]."""
        return np.diff(self.begins, append=len(self.links))


def count_links(
    pairs: Sequence[Pair], tgt_size: int, on_progress: Callable[[int], None] = lambda _done: None
) -> Links:
    """Expected counts of links between the tokens of sentence pairs.

    Args:
        pairs: of one direction; a token that every source has takes the role of the empty word.
        tgt_size: number of target ids.
        on_progress: called after each round with the number of finished rounds.

    Returns:
        The counts of the last round.
    """
    kinds, chunks = _index(pairs, tgt_size)
    src_ids, tgt_ids = np.divmod(kinds, tgt_size)
    probabilities, counts = np.ones(len(kinds)), np.zeros(len(kinds))
    for number in range(ROUNDS):
        counts = np.zeros(len(kinds))
        for chunk in chunks:
            shares = probabilities[chunk.links]
            shares /= np.repeat(np.add.reduceat(shares, chunk.begins), chunk.lengths)
            counts += np.bincount(chunk.links, shares, len(kinds))
        probabilities = counts / np.bincount(src_ids, counts)[src_ids]
        on_progress(number + 1)
    return Links(src_ids, tgt_ids, counts)


def _index(pairs: Sequence[Pair], tgt_size: int) -> tuple[Ids, list[_Chunk]]:
    """Distinct links, `src_id * tgt_size + tgt_id` in increasing order, and those of the pairs."""
    chunks = []
    for begin in range(0, len(pairs), _TOGETHER):
        keys, lengths = _keys(pairs[begin : begin + _TOGETHER], tgt_size)
        chunks.append((*np.unique(keys, return_inverse=True), lengths))
    kinds = np.unique(np.concatenate([own for own, _, _ in chunks]))
    return kinds, [
        _Chunk(
            np.searchsorted(kinds, own).astype(np.int32)[links],
            np.concatenate([[0], np.cumsum(lengths)[:-1]]),
        )
        for own, links, lengths in chunks
    ]


def _keys(pairs: Sequence[Pair], tgt_size: int) -> tuple[Ids, Ids]:
    """Every link of the pairs, ordered by target token, and the number of links of each."""
    keys, lengths = [], []
    for src, tgt in pairs:
        rows = np.array(src, np.int64) * tgt_size
        keys.append((np.array(tgt, np.int64)[:, None] + rows).ravel())
        lengths.append(itertools.repeat(len(src), len(tgt)))
    return np.concatenate(keys), np.fromiter(itertools.chain.from_iterable(lengths), np.int64)

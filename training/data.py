"""Parallel text: reading it, numbering it, and cutting it into batches.

Knows files and token ids; must not know the model or how it is optimised.
"""

from __future__ import annotations

import gzip
import itertools
import lzma
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dragoman.errors import UsageError
from dragoman.text import BEGIN_ID, END_ID, PAD_ID, Tokenizer

_SUFFIXES = ("", ".gz", ".xz")


def _open(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    if path.suffix == ".xz":
        return lzma.open(path, "rb")
    return path.open("rb")


def read_lines(prefix: Path, language: str) -> list[str]:
    """Read one side of a parallel text.

    Args:
        prefix: path without the language: `train` for `train.en`, `train.en.gz` or `train.en.xz`.
        language: the language code that ends the name.

    Raises:
        UsageError: no such file, a broken archive, or a line that is not UTF-8, by number.
    """
    candidates = [prefix.with_name(f"{prefix.name}.{language}{suffix}") for suffix in _SUFFIXES]
    path = next(filter(Path.is_file, candidates), None)
    if path is None:
        raise UsageError(f"{prefix}.{language}: no such file, with or without .gz or .xz")
    lines = []
    try:
        with _open(path) as file:
            for number, line in enumerate(file, start=1):
                try:
                    lines.append(line.decode("utf-8").rstrip("\r\n"))
                except UnicodeDecodeError as error:
                    raise UsageError(f"{path}: line {number} is not UTF-8") from error
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    return lines


def read_pairs(prefix: Path, languages: Sequence[str]) -> list[tuple[str, ...]]:
    """Read a parallel text, line by line, leaving out pairs with an empty side.

    Raises:
        UsageError: a file is missing or unreadable, or the sides differ in their number of lines.
    """
    sides = [read_lines(prefix, language) for language in languages]
    if len(set(map(len, sides))) > 1:
        counts = ", ".join(f"{len(s)} in {lang}" for s, lang in zip(sides, languages, strict=True))
        raise UsageError(f"{prefix}: the sides differ in their number of lines: {counts}")
    return [pair for pair in zip(*sides, strict=True) if all(side.strip() for side in pair)]


@dataclass(frozen=True)
class Batch:
    """Padded sentence pairs, all int64.

    `src_ids` [B, S] holds tag, text and end; `tgt_in_ids` [B, T] begins with the start symbol, and
    `tgt_out_ids` [B, T] is the same shifted by one, ending with the end symbol.
    """

    src_ids: Tensor
    tgt_in_ids: Tensor
    tgt_out_ids: Tensor


class Examples:
    """Token ids of sentence pairs in every direction, and their order in each epoch."""

    def __init__(
        self,
        pairs: Sequence[Sequence[str]],
        languages: Sequence[str],
        tokenizer: Tokenizer,
        max_length_tokens: int,
    ) -> None:
        """Encode pairs.

        Args:
            pairs: one text a language, in the order of `languages`.
            languages: language codes.
            tokenizer: a vocabulary with a tag for each.
            max_length_tokens: pairs with a longer side are left out.
        """
        tags = [tokenizer.tag_id(language) for language in languages]
        self._sources: list[npt.NDArray[np.int32]] = []
        self._targets: list[npt.NDArray[np.int32]] = []
        self._tags: list[int] = []
        self.left_out = 0
        for pair in pairs:
            sides = [np.array(tokenizer.encode(text), dtype=np.int32) for text in pair]
            if any(not 0 < len(side) <= max_length_tokens for side in sides):
                self.left_out += 1
                continue
            for src, tgt in itertools.permutations(range(len(languages)), 2):
                self._sources.append(sides[src])
                self._targets.append(sides[tgt])
                self._tags.append(tags[tgt])

    def __len__(self) -> int:
        """Number of examples, each direction counted."""
        return len(self._tags)

    def batches(
        self, batch_tokens: int, seed: int, epoch: int, joined_share: float = 0.0
    ) -> Iterator[Batch]:
        """Yield one epoch in batches of like lengths, in an order that seed and epoch decide.

        Args:
            batch_tokens: at most so many tokens on the longer side, padding included; a single
                longer example still makes a batch.
            seed: the run's seed.
            epoch: number of the epoch; each has its own order.
            joined_share: share of examples that get another of their direction joined on.
        """
        random = np.random.default_rng((seed, epoch))
        first = random.permutation(len(self))
        second = self._partners(first, joined_share, random)
        src_lengths = np.array([len(side) for side in self._sources])
        tgt_lengths = np.array([len(side) for side in self._targets])
        joined = second >= 0
        src = src_lengths[first] + np.where(joined, src_lengths[second], 0) + 2
        tgt = tgt_lengths[first] + np.where(joined, tgt_lengths[second], 0) + 1
        by_length = np.lexsort((src, tgt))  # stable: equals stay shuffled
        cuts = _cut(np.maximum(src, tgt)[by_length], batch_tokens)
        for part in random.permutation(len(cuts) - 1):
            rows = by_length[cuts[part] : cuts[part + 1]]
            yield self._batch(first[rows], second[rows])

    def _partners(
        self, first: npt.NDArray[np.int64], share: float, random: np.random.Generator
    ) -> npt.NDArray[np.int64]:
        second = np.full(len(first), -1)
        tags = np.array(self._tags)
        chosen = random.random(len(first)) < share
        for tag in np.unique(tags):
            rows = np.flatnonzero(chosen & (tags[first] == tag))
            second[rows] = random.choice(np.flatnonzero(tags == tag), size=len(rows))
        return second

    def _batch(self, first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]) -> Batch:
        sources, targets = [], []
        for i, j in zip(first.tolist(), second.tolist(), strict=True):
            joined = (i,) if j < 0 else (i, j)
            sources.append([self._tags[i], *itertools.chain(*(self._sources[k] for k in joined))])
            targets.append([*itertools.chain(*(self._targets[k] for k in joined))])
        return Batch(
            src_ids=pad([[*source, END_ID] for source in sources]),
            tgt_in_ids=pad([[BEGIN_ID, *target] for target in targets]),
            tgt_out_ids=pad([[*target, END_ID] for target in targets]),
        )


def pad(rows: Sequence[Sequence[int]]) -> Tensor:
    """Lay sequences of ids side by side: int64 [B, longest], padded at the end."""
    longest = max(map(len, rows))
    ids = np.full((len(rows), longest), PAD_ID, dtype=np.int64)
    for row, sequence in zip(ids, rows, strict=True):
        row[: len(sequence)] = sequence
    return torch.from_numpy(ids)


def _cut(lengths: npt.NDArray[np.int64], batch_tokens: int) -> list[int]:
    """Bounds of batches over lengths in rising order of one side."""
    cuts, longest = [0], 0
    for row, length in enumerate(lengths.tolist()):
        longest = max(longest, length)
        if (row - cuts[-1] + 1) * longest > batch_tokens and row > cuts[-1]:
            cuts.append(row)
            longest = length
    return [*cuts, len(lengths)]

"""Parallel text: reading it, numbering it, and cutting it into batches.

Knows files and token ids; must not know the model or how it is optimised.
"""

from __future__ import annotations

import gzip
import itertools
import lzma
import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Protocol

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

    Raises:
        UsageError: as `iterate_lines`.
    """
    return list(iterate_lines(prefix, language))


def iterate_lines(prefix: Path, language: str) -> Iterator[str]:
    """Read one side of a parallel text, line by line.

    Args:
        prefix: path without the language: `train` for `train.en`, `train.en.gz` or `train.en.xz`.
        language: the language code that ends the name.

    Raises:
        UsageError: no such file, a broken archive, or a line that is not UTF-8, by number.
    """
    path = find_file(prefix, language)
    if path is None:
        raise UsageError(f"{prefix}.{language}: no such file, with or without .gz or .xz")
    try:
        with _open(path) as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield line.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise UsageError(f"{path}: line {number} is not UTF-8") from error
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error


def read_pairs(prefix: Path, languages: Sequence[str]) -> list[tuple[str, ...]]:
    """Read a parallel text, leaving out pairs with an empty side.

    Raises:
        UsageError: as `iterate_pairs`.
    """
    # Of the text itself, `list` would ask for the length first, which takes reading it.
    return list(iter(TextFiles(prefix, languages)))


def read_sides(prefix: Path, languages: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """As `read_pairs`: the sides by their languages.

    Raises:
        UsageError: as there, or no pair is left.
    """
    pairs = read_pairs(prefix, languages)
    if not pairs:
        raise UsageError(f"{prefix}: every pair has an empty side")
    return dict(zip(languages, zip(*pairs, strict=True), strict=True))


@dataclass(frozen=True)
class Side:
    """One language of a parallel text."""

    language: str
    texts: Sequence[str]


def read_directions(
    prefix: Path, directions: Sequence[Sequence[str]], first: int | None = None
) -> list[tuple[Side, Side]]:
    """Read a parallel text as source and target, in each direction that it has both languages of.

    Args:
        prefix: path without the language.
        directions: source and target language of what is wanted.
        first: only so many pairs.

    Raises:
        UsageError: a file is unreadable or empty, or no direction fits.
    """
    known = list(dict.fromkeys(itertools.chain.from_iterable(directions)))
    languages = find_languages(prefix, known)
    fitting = [(src, tgt) for src, tgt in directions if src in languages and tgt in languages]
    if not fitting:
        names = ", ".join(map("-".join, directions))
        raise UsageError(f"{prefix}: is in {', '.join(languages)}, which none of {names} needs")
    texts = read_sides(prefix, languages)
    sides = {language: Side(language, text[:first]) for language, text in texts.items()}
    return [(sides[src], sides[tgt]) for src, tgt in fitting]


def find_languages(prefix: Path, known: Sequence[str]) -> list[str]:
    """The languages that a parallel text has files of.

    Raises:
        UsageError: it has fewer than two.
    """
    found = [language for language in known if find_file(prefix, language)]
    if len(found) < 2:
        has = f"only one in {found[0]!r}" if found else "none"
        raise UsageError(f"{prefix}: needs files in two of {', '.join(known)}; there is {has}")
    return found


def find_file(prefix: Path, language: str) -> Path | None:
    """The file of one side of a parallel text, if there is one.

    Raises:
        UsageError: the prefix has no name.
    """
    if not prefix.name:
        raise UsageError(f"'{prefix}' names no text: give a prefix such as tatoeba-en-de/test")
    candidates = [prefix.with_name(f"{prefix.name}.{language}{suffix}") for suffix in _SUFFIXES]
    return next(filter(Path.is_file, candidates), None)


def read_all_pairs(prefix: Path, languages: Sequence[str]) -> list[tuple[str, ...]]:
    """Read a parallel text as it is, pairs with an empty side included.

    Raises:
        UsageError: as `iterate_pairs`.
    """
    return list(iterate_pairs(prefix, languages))


def iterate_pairs(prefix: Path, languages: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Read a parallel text as it is, line by line.

    Raises:
        UsageError: a file is missing, unreadable or empty, or the sides differ in their number of
            lines.
    """
    sides = [iterate_lines(prefix, language) for language in languages]
    number = 0
    for pair in itertools.zip_longest(*sides):
        if None in pair:
            counts = [
                number + (line is not None) + sum(1 for _ in side)
                for line, side in zip(pair, sides, strict=True)
            ]
            found = [f"{count} in {name}" for count, name in zip(counts, languages, strict=True)]
            raise UsageError(
                f"{prefix}: the sides differ in their number of lines: {', '.join(found)}"
            )
        number += 1
        yield pair
    if not number:
        raise UsageError(f"{prefix}.{languages[0]}: is empty")


class Pairs(Protocol):
    """Sentence pairs that can be gone through again and again, and counted."""

    def __iter__(self) -> Iterator[Sequence[str]]: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True)
class TextFiles:
    """A parallel text in its files, less pairs with an empty side; none of it is kept in memory."""

    prefix: Path
    languages: Sequence[str]

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """Its pairs.

        Raises:
            UsageError: as `iterate_pairs`.
        """
        for pair in iterate_pairs(self.prefix, self.languages):
            if all(map(str.strip, pair)):
                yield pair

    def __len__(self) -> int:
        """How many there are; reads all of them, once."""
        return self._number

    @cached_property
    def _number(self) -> int:
        return sum(1 for _ in self)


def some_pairs(number: int, max_pairs: int | None) -> Iterator[int]:
    """The order in which to look at the pairs of a text, of which `max_pairs` will be taken."""
    if max_pairs is None or max_pairs >= number:
        return iter(range(number))
    return iter(np.random.default_rng(0).permutation(number).tolist())


@dataclass(frozen=True)
class Batch:
    """Padded sentence pairs, all int64.

    `src_ids` [B, S] holds tag, text and end; `tgt_in_ids` [B, T] begins with the start symbol, and
    `tgt_out_ids` [B, T] is the same shifted by one, ending with the end symbol.
    """

    src_ids: Tensor
    tgt_in_ids: Tensor
    tgt_out_ids: Tensor


@dataclass(frozen=True)
class Part:
    """Which examples go through the model together; `second` is -1 where none is joined on."""

    first: npt.NDArray[np.int64]
    second: npt.NDArray[np.int64]
    tgt_tokens: int


@dataclass(frozen=True)
class ParallelText:
    """Sentence pairs of one corpus: one text a language, in the order of `languages`."""

    pairs: Sequence[Sequence[str]]
    languages: Sequence[str]
    weight: float = 1.0
    max_pairs: int | None = None
    one_way: bool = False

    @property
    def directions(self) -> list[tuple[int, int]]:
        """Which of its sides are source and target of what it teaches."""
        return (
            [(0, 1)] if self.one_way else [*itertools.permutations(range(len(self.languages)), 2)]
        )


class _Sides:
    """Many token sequences in one array."""

    def __init__(self) -> None:
        self._ids = array("i")
        self._ends = array("q", [0])

    def add(self, ids: Sequence[int]) -> int:
        """Append a sequence and return its number."""
        self._ids.extend(ids)
        self._ends.append(len(self._ids))
        return len(self._ends) - 2

    def lengths(self) -> npt.NDArray[np.int64]:
        return np.diff(np.frombuffer(self._ends, dtype=np.int64))

    def __getitem__(self, number: int) -> array[int]:
        return self._ids[self._ends[number] : self._ends[number + 1]]


class Examples:
    """Token ids of sentence pairs in every direction, and their order in each epoch."""

    def __init__(
        self,
        texts: Sequence[ParallelText],
        tokenizer: Tokenizer,
        max_length_tokens: int,
        temperature: float | None = None,
    ) -> None:
        """Encode pairs.

        Args:
            texts: the corpora; every ordered pair of a corpus's languages is a direction, or the
                first pair alone.
            tokenizer: a vocabulary with a tag for each language.
            max_length_tokens: pairs with a longer side are left out.
            temperature: how corpora are mixed, instead of by their weights.
        """
        self._sides = _Sides()
        self._directions: dict[tuple[str, str], int] = {}
        rows: list[tuple[int, int, int, int]] = []  # source, target, tag, direction
        bounds = [0]
        self.left_out = 0
        for text in texts:
            rows += self._encoded(text, tokenizer, max_length_tokens)
            bounds.append(len(rows))
        table = np.array(rows, dtype=np.int64).reshape(-1, 4)
        self._source, self._target, self._tag, self._direction = table.T
        self._lengths = self._sides.lengths()
        self._corpora = list(itertools.pairwise(bounds))
        sizes = [end - begin for begin, end in self._corpora]
        self._shown = _shown(sizes, [text.weight for text in texts], temperature)

    def _encoded(
        self, text: ParallelText, tokenizer: Tokenizer, limit: int
    ) -> Iterator[tuple[int, int, int, int]]:
        tags = [tokenizer.tag_id(language) for language in text.languages]
        taken = 0
        for index in some_pairs(len(text.pairs), text.max_pairs):
            if taken == text.max_pairs:
                return
            encoded = [tokenizer.encode(side) for side in text.pairs[index]]
            if any(not 0 < len(side) <= limit for side in encoded):
                self.left_out += 1
                continue
            taken += 1
            sides = [self._sides.add(side) for side in encoded]
            for src, tgt in text.directions:
                pair = (text.languages[src], text.languages[tgt])
                direction = self._directions.setdefault(pair, len(self._directions))
                yield sides[src], sides[tgt], tags[tgt], direction

    def __len__(self) -> int:
        """Number of examples, each direction counted."""
        return len(self._tag)

    @property
    def directions(self) -> tuple[tuple[str, str], ...]:
        """Source and target language of what there is to learn."""
        return tuple(self._directions)

    def steps(
        self,
        batch_tokens: int,
        part_tokens: int,
        seed: int,
        epoch: int,
        joined_share: float = 0.0,
    ) -> list[list[Part]]:
        """Plan one epoch, in an order that seed and epoch decide.

        Args:
            batch_tokens: at most so many tokens a step on the longer side, padding included.
            part_tokens: at most so many of them at a time, in parts of like lengths; a single
                longer example still makes a part.
            seed: the run's seed.
            epoch: number of the epoch; each has its own order.
            joined_share: share of examples that get another of their direction joined on.

        Returns:
            The parts of each step, for `batch`.
        """
        random = np.random.default_rng((seed, epoch))
        first = random.permutation(self._drawn(seed, epoch))
        second = self._partners(first, joined_share, random)
        lengths, joined = self._lengths, second >= 0
        src_second = np.where(joined, lengths[self._source[second]], 0)
        tgt_second = np.where(joined, lengths[self._target[second]], 0)
        src = lengths[self._source[first]] + src_second + 2
        tgt = lengths[self._target[first]] + tgt_second + 1
        by_length = np.lexsort((src, tgt))  # stable: equals stay shuffled
        longer = np.maximum(src, tgt)
        cuts = _cut(longer[by_length], part_tokens)
        steps: list[list[Part]] = [[]]
        room = batch_tokens
        for number in random.permutation(len(cuts) - 1):
            rows = by_length[cuts[number] : cuts[number + 1]]
            size = len(rows) * int(longer[rows].max())
            if size > room and steps[-1]:
                steps.append([])
                room = batch_tokens
            room -= size
            steps[-1].append(Part(first[rows], second[rows], int(tgt[rows].sum())))
        return steps

    def _drawn(self, seed: int, epoch: int) -> npt.NDArray[np.int64]:
        """The examples that an epoch shows: of each corpus the next ones of an endless shuffle."""
        drawn = []
        for corpus, ((begin, end), count) in enumerate(
            zip(self._corpora, self._shown, strict=True)
        ):
            size = end - begin
            places = np.arange(epoch * count, (epoch + 1) * count)
            for turn in np.unique(places // size) if size else ():
                shuffled = np.random.default_rng((seed, corpus, turn)).permutation(size)
                drawn.append(begin + shuffled[places[places // size == turn] % size])
        return np.concatenate(drawn)

    def _partners(
        self, first: npt.NDArray[np.int64], share: float, random: np.random.Generator
    ) -> npt.NDArray[np.int64]:
        second = np.full(len(first), -1)
        chosen = random.random(len(first)) < share
        directions = self._direction[first]
        for direction in np.unique(directions):
            of_direction = np.flatnonzero(directions == direction)
            rows = of_direction[chosen[of_direction]]
            second[rows] = first[random.choice(of_direction, size=len(rows))]
        return second

    def batch(self, part: Part) -> Batch:
        """Lay the examples of a part side by side."""
        sources, targets = [], []
        for i, j in zip(part.first.tolist(), part.second.tolist(), strict=True):
            joined = (i,) if j < 0 else (i, j)
            source = itertools.chain(*(self._sides[self._source[k]] for k in joined))
            sources.append([int(self._tag[i]), *source])
            targets.append([*itertools.chain(*(self._sides[self._target[k]] for k in joined))])
        return Batch(
            src_ids=pad([[*source, END_ID] for source in sources]),
            tgt_in_ids=pad([[BEGIN_ID, *target] for target in targets]),
            tgt_out_ids=pad([[*target, END_ID] for target in targets]),
        )


def _shown(sizes: Sequence[int], weights: Sequence[float], temperature: float | None) -> list[int]:
    """How many examples of each corpus an epoch shows: at least one, where there is one."""
    if temperature is None:
        counts = [weight * size for weight, size in zip(weights, sizes, strict=True)]
    else:
        # Beside the largest, so that no power exceeds what a float holds.
        largest = max([*sizes, 1])
        parts = [(size / largest) ** (1 / temperature) for size in sizes]
        counts = [part * sum(sizes) / max(sum(parts), 1.0) for part in parts]
    return [max(round(count), min(size, 1)) for count, size in zip(counts, sizes, strict=True)]


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

"""Examples: sentence pairs as token ids, their order in an epoch, and their batches."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.kernel.text import BEGIN_ID, END_ID, PAD_ID, Tokenizer
from dragoman_training.text.encoding import (
    Drawing,
    EncodedText,
    Numbered,
    TokenFiles,
    encode,
    ranges,
)
from dragoman_training.text.parallel_text import ParallelText

if TYPE_CHECKING:
    # Imported only where tensors are made: processes that prepare batches start without it.
    from torch import Tensor

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Padded sentence pairs, ids in int64.

    `src_ids` [B, S] has tag, text and end symbol; `tgt_in_ids` [B, T] begins with the start symbol,
    and `tgt_out_ids` [B, T] is the same shifted by one, ending with the end symbol. `linked`, bool
    [B, T, S], says which source tokens each token of `tgt_in_ids` is aligned to; None if no token
    of the batch is aligned.
    """

    src_ids: Tensor
    tgt_in_ids: Tensor
    tgt_out_ids: Tensor
    linked: Tensor | None = None

    @property
    def padded_tokens(self) -> int:
        """Tokens on the longer side, padding included."""
        return self.src_ids.size(0) * max(self.src_ids.size(1), self.tgt_in_ids.size(1))


def tensors(arrays: Sequence[npt.NDArray[Any]]) -> Batch:
    """The batch of `Examples.arrays`."""
    import torch

    return Batch(*map(torch.from_numpy, arrays))


def pieces(batch: Batch, most_tokens: int | None) -> Iterator[Batch]:
    """Split a batch into pieces of at most this many tokens, padding included; pairs stay whole."""
    rows = len(batch.src_ids)
    if most_tokens is not None and batch.padded_tokens > most_tokens:
        rows = max(1, most_tokens * rows // batch.padded_tokens)
    sides = (batch.src_ids, batch.tgt_in_ids, batch.tgt_out_ids, batch.linked)
    given = [side for side in sides if side is not None]
    split = (side.split(rows) for side in given)  # type: ignore[no-untyped-call]
    for parts in zip(*split, strict=True):
        yield Batch(*parts)


@dataclass(frozen=True)
class Part:
    """Examples of one forward pass; `second` is -1 if no second example is joined on."""

    first: Numbers
    second: Numbers
    tgt_tokens: int


@dataclass(frozen=True)
class _Corpus:
    """A corpus's pairs; each pair is an example in each direction, direction after direction."""

    sources: Sequence[EncodedText]
    """The same pairs, once for each random segmentation."""
    targets: Sequence[EncodedText]
    """The targets, in the same order as `sources`."""
    directions: Sequence[tuple[int, int]]
    """Which sides are source and target."""
    tags: Sequence[Sequence[int]]
    """For each direction, the id of its target language's tag, if the vocabulary has tags."""
    numbers: Sequence[int]
    """For each direction, its index among the directions of all corpora."""
    links: Sequence[tuple[int, bool] | None]
    """For each direction, the side that has its links, and whether they count the target first."""
    begin: int
    """Index of its first example among those of all corpora."""

    @property
    def end(self) -> int:
        return self.begin + len(self.sources[0]) * len(self.directions)


class _Group(NamedTuple):
    """Those of some examples that are in one direction of one corpus, in one segmentation."""

    corpus: _Corpus
    way: int
    """Index of the direction among the corpus's own."""
    drawing: int
    rows: Numbers
    """Their indices among the examples."""
    pairs: Numbers
    """Their indices among the corpus's pairs."""

    def source(self) -> tuple[EncodedText, int]:
        """The text and the side of the sources."""
        return self.corpus.sources[self.drawing], self.corpus.directions[self.way][0]

    def target(self) -> tuple[EncodedText, int]:
        """The text and the side of the targets."""
        return self.corpus.targets[self.drawing], self.corpus.directions[self.way][1]


class Examples:
    """Sentence pairs in every direction, and their order in each epoch.

    An epoch's order is a shuffle of the whole text. Only the order of the current epoch is kept in
    memory, nothing else about an example.

    An example's number encodes the pair, the direction and the segmentation
    (`data.subword_dropout`): N examples in the first segmentation are followed by the same N in the
    second.
    """

    def __init__(
        self,
        texts: Sequence[ParallelText],
        tokenizer: Tokenizer,
        max_length_tokens: int,
        temperature: float | None = None,
        files: TokenFiles | None = None,
        drawings: Sequence[Drawing] = (),
        targets_too: bool = False,
        multiple: int = 1,
    ) -> None:
        """Encode pairs.

        Args:
            texts: the corpora; every ordered pair of a corpus's languages is a direction, or only
                the first pair.
            tokenizer: a vocabulary with a tag for each language, or an imported model's.
            max_length_tokens: pairs with a longer side are skipped.
            temperature: how corpora are mixed, instead of by their weights.
            files: where token ids are stored; None: in memory.
            drawings: random segmentations of source words, if any; the passes through a corpus take
                them in turn.
            targets_too: whether target words are split randomly too.
            multiple: the lengths of a batch are padded to a multiple of it. A plan does not depend
                on it, so a part may then exceed its limit.
        """
        self._multiple = multiple
        self._tags = tokenizer.tags
        self._corpora: list[_Corpus] = []
        self._directions: dict[tuple[str, str], int] = {}
        all_drawings = (None, *drawings)
        if files:
            numbered = [
                Numbered(number, text, drawing)
                for number, text in enumerate(texts)
                for drawing in all_drawings
            ]
            encoded = iter(files.encode_all(numbered, tokenizer, max_length_tokens))
        else:
            encoded = (
                encode(text, tokenizer, max_length_tokens, drawing)
                for text in texts
                for drawing in all_drawings
            )
        for text in texts:
            usual, *drawn = itertools.islice(encoded, len(all_drawings))
            sources = drawn or [usual]
            targets = [usual] * len(drawn) if drawn and not targets_too else sources
            self._corpora.append(self._corpus(text, sources, targets, tokenizer))
        self._begins = [corpus.begin for corpus in self._corpora]
        sizes = [corpus.end - corpus.begin for corpus in self._corpora]
        self._shown = _shown(sizes, [text.weight for text in texts], temperature)

    def _corpus(
        self,
        text: ParallelText,
        sources: Sequence[EncodedText],
        targets: Sequence[EncodedText],
        tokenizer: Tokenizer,
    ) -> _Corpus:
        names = [(text.languages[src], text.languages[tgt]) for src, tgt in text.directions]
        known = self._directions
        # A corpus without pairs has no directions.
        numbers = [known.setdefault(name, len(known)) for name in names if len(sources[0])]
        tags = [tokenizer.tag_ids(tgt) for _, tgt in names]
        links = [_links_of(text, *direction) for direction in text.directions]
        return _Corpus(sources, targets, text.directions, tags, numbers, links, len(self))

    def __len__(self) -> int:
        """Number of examples, each direction counted."""
        return self._corpora[-1].end if self._corpora else 0

    @property
    def left_out(self) -> int:
        """Number of pairs that are too long."""
        return sum(corpus.sources[0].left_out for corpus in self._corpora)

    @property
    def digest(self) -> str:
        """Digest of the encoded text, if it is in files."""
        digests = [text.digest for corpus in self._corpora for text in corpus.sources]
        if any(corpus.sources is not corpus.targets for corpus in self._corpora):
            digests.append("sources alone")
        return hashlib.sha256("\n".join(digests).encode()).hexdigest()

    @property
    def directions(self) -> tuple[tuple[str, str], ...]:
        """Source and target language of all trained directions."""
        return tuple(self._directions)

    def steps(
        self,
        batch_tokens: int,
        part_tokens: int,
        seed: int,
        epoch: int,
        joined_share: float = 0.0,
        drawn: Sequence[int] | None = None,
    ) -> list[list[Part]]:
        """Plan one epoch, in an order determined by seed and epoch.

        Args:
            batch_tokens: maximum tokens of a step on the longer side, padding included.
            part_tokens: maximum tokens of a part; a part has pairs of similar lengths, and a single
                longer example is a part of its own.
            seed: the run's seed.
            epoch: number of the epoch; each has its own order.
            joined_share: share of examples that get another one of their direction joined on.
            drawn: how many examples of each corpus were drawn up to the end of this epoch; None: as
                if all epochs drew as many as this one.

        Returns:
            The parts of each step, for `batch`.
        """
        random = np.random.default_rng((seed, epoch))
        ends = self.drawn_by(epoch + 1) if drawn is None else drawn
        first = random.permutation(self._drawn(seed, ends))
        second = self._partners(first, joined_share, random)
        src, tgt = (a + b for a, b in zip(self._lengths(first), self._lengths(second), strict=True))
        src += 1 + self._tags  # with the end symbol
        tgt += 1
        by_length = np.lexsort((src, tgt))  # stable: equal lengths stay shuffled
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

    def drawn_by(self, epochs: int, former: Sequence[int] = ()) -> tuple[int, ...]:
        """How many examples of each corpus some epochs draw, added to what was drawn before.

        Args:
            epochs: their number.
            former: examples drawn before, possibly for fewer or more corpora.
        """
        before = itertools.chain(former, itertools.repeat(0))
        counts = zip(before, self._shown, strict=False)
        return tuple(drawn + epochs * count for drawn, count in counts)

    def _drawn(self, seed: int, ends: Sequence[int]) -> Numbers:
        """The examples of an epoch: for each corpus the next of an endless shuffle up to `ends`."""
        drawn = []
        sizes = zip(self._corpora, self._shown, ends, strict=True)
        for number, (corpus, count, end) in enumerate(sizes):
            size = corpus.end - corpus.begin
            places = np.arange(end - count, end)
            for turn in np.unique(places // size) if size else ():
                shuffled = np.random.default_rng((seed, number, turn)).permutation(size)
                numbers = corpus.begin + shuffled[places[places // size == turn] % size]
                drawn.append(numbers + turn % len(corpus.sources) * len(self))
        return np.concatenate(drawn)

    def _partners(self, first: Numbers, share: float, random: np.random.Generator) -> Numbers:
        second = np.full(len(first), -1)
        chosen = random.random(len(first)) < share
        directions = np.zeros(len(first), np.int32)
        for group in self._groups(first):
            directions[group.rows] = group.corpus.numbers[group.way]
        for direction in np.unique(directions):
            of_direction = np.flatnonzero(directions == direction)
            rows = of_direction[chosen[of_direction]]
            second[rows] = first[random.choice(of_direction, size=len(rows))]
        return second

    def _lengths(self, examples: Numbers) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Tokens of sources and targets; 0 for a number of no example."""
        src, tgt = np.zeros((2, len(examples)), np.int32)
        for group in self._groups(examples):
            for lengths, (text, side) in ((src, group.source()), (tgt, group.target())):
                lengths[group.rows] = text.lengths(group.pairs, side)
        return src, tgt

    def _groups(self, examples: Numbers) -> Iterator[_Group]:
        """Examples by corpus, direction and segmentation; -1 is no example."""
        rows = np.flatnonzero(examples >= 0)
        drawings, numbers = np.divmod(examples[rows], max(len(self), 1))
        corpora = np.searchsorted(self._begins, numbers, side="right") - 1
        keys = drawings * len(self._corpora) + corpora
        by_key = np.argsort(keys, kind="stable")
        bounds = np.flatnonzero(np.diff(keys[by_key], prepend=-1))
        for chosen in np.split(by_key, bounds[1:]) if len(rows) else ():
            drawing, index = divmod(int(keys[chosen[0]]), len(self._corpora))
            corpus = self._corpora[index]
            pairs, directions = np.divmod(numbers[chosen] - corpus.begin, len(corpus.directions))
            for direction in np.unique(directions):
                own = directions == direction
                yield _Group(corpus, int(direction), drawing, rows[chosen[own]], pairs[own])

    def batch(self, part: Part) -> Batch:
        """Collate the examples of a part."""
        return tensors(self.arrays(part))

    def arrays(self, part: Part) -> list[npt.NDArray[Any]]:
        """The tensors of a part's `Batch`, as arrays."""
        chosen = (part.first, part.second)
        lengths = [self._lengths(examples) for examples in chosen]
        src_lengths, tgt_lengths = (first + second for first, second in zip(*lengths, strict=True))
        rows = np.arange(len(part.first))
        source = _padded(self._tags + src_lengths + 1, self._multiple)
        target = _padded(tgt_lengths + 1, self._multiple)
        source[rows, self._tags + src_lengths] = END_ID
        target[rows, tgt_lengths] = END_ID
        linked = np.zeros((len(rows), target.shape[1], source.shape[1]), np.bool_)
        src_begin, tgt_begin = np.full_like(src_lengths, self._tags), np.zeros_like(tgt_lengths)
        for examples, (src_taken, tgt_taken) in zip(chosen, lengths, strict=True):
            for group in self._groups(examples):
                source[group.rows, : self._tags] = group.corpus.tags[group.way]
                _place(source, group.rows, src_begin, group.pairs, *group.source())
                _place(target, group.rows, tgt_begin, group.pairs, *group.target())
                _link(linked, group, src_begin, tgt_begin)
            src_begin, tgt_begin = src_begin + src_taken, tgt_begin + tgt_taken
        begins = np.full((len(rows), 1), BEGIN_ID)
        read = np.where(target == END_ID, PAD_ID, target)[:, :-1]
        links = [linked] if linked.any() else []
        return [source, np.concatenate([begins, read], axis=1), target, *links]


def _links_of(text: ParallelText, src: int, tgt: int) -> tuple[int, bool] | None:
    """The side of a text with a direction's word alignments, see `_Corpus.links`."""
    for pair, turned in (((src, tgt), False), ((tgt, src), True)):
        if pair in text.links:
            return len(text.languages) + text.links.index(pair), turned
    return None


def _padded(lengths: npt.NDArray[np.int32], multiple: int) -> Numbers:
    """Rows of padding, as wide as the longest of these lengths, or up to the next multiple."""
    width = -(-int(lengths.max()) // multiple) * multiple
    return np.full((len(lengths), width), PAD_ID, np.int64)


def _place(
    padded: Numbers,
    rows: Numbers,
    begins: npt.NDArray[np.int32],
    pairs: Numbers,
    text: EncodedText,
    side: int,
) -> None:
    """Write one side of pairs into their rows; `begins` has each row's first column."""
    ids, lengths = text.sides_ids(pairs, side)
    padded.reshape(-1)[ranges(rows * padded.shape[1] + begins[rows], lengths)] = ids


def _link(
    linked: npt.NDArray[np.bool_],
    group: _Group,
    src_begin: npt.NDArray[np.int32],
    tgt_begin: npt.NDArray[np.int32],
) -> None:
    """Mark the links of pairs in `Batch.linked`, where targets follow a start symbol."""
    if (where := group.corpus.links[group.way]) is None:
        return
    side, turned = where
    ids, lengths = group.corpus.sources[group.drawing].sides_ids(group.pairs, side)
    links = ids.reshape(-1, 2).astype(np.int64)
    rows = np.repeat(group.rows, lengths // 2)
    src, tgt = links[:, int(turned)], links[:, 1 - int(turned)]
    linked[rows, 1 + tgt_begin[rows] + tgt, src_begin[rows] + src] = True


def _shown(sizes: Sequence[int], weights: Sequence[float], temperature: float | None) -> list[int]:
    """How many examples of each corpus an epoch shows: at least one if it has any."""
    if temperature is None:
        counts = [weight * size for weight, size in zip(weights, sizes, strict=True)]
    else:
        # Relative to the largest, so that no power overflows.
        largest = max([*sizes, 1])
        parts = [(size / largest) ** (1 / temperature) for size in sizes]
        counts = [part * sum(sizes) / max(sum(parts), 1.0) for part in parts]
    return [max(round(count), min(size, 1)) for count, size in zip(counts, sizes, strict=True)]


def pad(rows: Sequence[Sequence[int]]) -> Tensor:
    """Pad sequences of ids to int64 [B, longest]."""
    longest = max(map(len, rows))
    ids = np.full((len(rows), longest), PAD_ID, dtype=np.int64)
    for row, sequence in zip(ids, rows, strict=True):
        row[: len(sequence)] = sequence
    import torch

    return torch.from_numpy(ids)


def _cut(lengths: npt.NDArray[np.int32], batch_tokens: int) -> list[int]:
    """Bounds of batches over lengths of one side, roughly in increasing order."""
    cuts = [0]
    while cuts[-1] < len(lengths):
        begin = cuts[-1]
        most = max(batch_tokens // max(int(lengths[begin]), 1), 1)
        longest = np.maximum.accumulate(lengths[begin : begin + most].astype(np.int64))
        fits = longest * np.arange(1, len(longest) + 1) <= batch_tokens
        cuts.append(begin + max(int(fits.argmin()) if not fits.all() else len(fits), 1))
    return cuts

"""Token ids of parallel text: encoded once, kept in memory or in memory-mapped files."""

from __future__ import annotations

import fcntl
import hashlib
import io
import itertools
import json
import logging
import multiprocessing
import os
import shutil
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.kernel.errors import UsageError, writing
from dragoman.kernel.manifest import sha256
from dragoman.kernel.text import UNKNOWN_ID, Tokenizer
from dragoman_training.text.parallel_text import (
    ParallelText,
    TextFiles,
    drawing_ranks,
    existing_file,
    find_file,
    linked_by,
    links_ending,
    with_links,
)
from dragoman_training.text.word_links import BadLink, link_tokens

log = logging.getLogger(__name__)

_VERSION = 2
_PAIRS_AT_A_TIME = 4096
_PAIRS_A_REPORT = 1_000_000
_PARALLEL_BYTES = 4 << 20
"""Starting processes, which takes some tenths of a second, pays from this much text on."""
_IDS, _ENDS, _ORDER, _ABOUT = "ids.bin", "ends.bin", "order.bin", "about.json"
_SOURCE = "source"
"""Key of a record that does not determine the token ids."""
_ENCODING = ("vocabulary", "max_length_tokens", "max_pairs", "links", "dropout", "drawing")
"""Keys that do, beside the digests of the text."""


@dataclass(frozen=True)
class EncodedText:
    """The pairs of a corpus that are short enough, in the order in which they were sampled."""

    ids: npt.NDArray[np.generic]
    """All sides of all pairs, concatenated. After the text sides of a pair come the sides of its
    word alignments: the positions of two linked tokens, then those of the next two."""
    ends: npt.NDArray[np.int64]
    """End of each side in `ids`; the first begins at 0."""
    order: npt.NDArray[np.int64] | None
    """Index at which each pair is stored; None: its own index."""
    sides: int
    left_out: int
    """Number of pairs that are too long."""
    digest: str = ""
    """Digest of the input files, if it was made from files."""

    def __len__(self) -> int:
        """Number of pairs."""
        return (len(self.ends) - 1) // self.sides if self.order is None else len(self.order)

    def sides_ids(
        self, pairs: npt.NDArray[np.int64], side: int
    ) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.int64]]:
        """Token ids of one side of pairs, concatenated, and their number for each pair."""
        places = self._places(pairs) * self.sides + side
        begins: npt.NDArray[np.int64] = self.ends[places]
        lengths: npt.NDArray[np.int64] = self.ends[places + 1] - begins
        return self.ids[ranges(begins, lengths)], lengths

    def lengths(self, pairs: npt.NDArray[np.int64], side: int) -> npt.NDArray[np.int32]:
        """Numbers of tokens of one side of pairs."""
        places = self._places(pairs) * self.sides + side
        lengths: npt.NDArray[np.int64] = self.ends[places + 1] - self.ends[places]
        return lengths.astype(np.int32)

    def __getstate__(self) -> dict[str, Any]:
        """Its fields, files instead of mapped arrays: another process maps them itself."""
        return {
            name: _Mapped(Path(str(value.filename)), value.dtype)
            if isinstance(value, np.memmap)
            else value
            for name, value in vars(self).items()
        }

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Restore it from `__getstate__`."""
        for name, value in state.items():
            array = _mapped(*value) if isinstance(value, _Mapped) else value
            object.__setattr__(self, name, array)

    def _places(self, pairs: Any) -> Any:
        return pairs if self.order is None else self.order[pairs]


class _Mapped(NamedTuple):
    """A file that is mapped as an array."""

    path: Path
    dtype: npt.DTypeLike


def ranges(begins: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The indices of several ranges, one after the other."""
    before = np.cumsum(lengths) - lengths
    indices: npt.NDArray[np.int64] = np.arange(lengths.sum()) + np.repeat(begins - before, lengths)
    return indices


@dataclass(frozen=True)
class Drawing:
    """A random segmentation of words into subword tokens (BPE-dropout)."""

    dropout: float
    """Probability that a merge is skipped."""
    number: int
    """Each number gives another segmentation."""


def encode(
    text: ParallelText, tokenizer: Tokenizer, limit: int, drawing: Drawing | None = None
) -> EncodedText:
    """Encode a text, and keep it in memory.

    Args:
        text: the pairs.
        tokenizer: the vocabulary.
        limit: maximum length of a side. Longer pairs are skipped, and so are pairs with an empty
            side or with target characters that an imported vocabulary lacks.
        drawing: how words are split; None: deterministically. It does not change which pairs are
            skipped: if it makes a side longer than the limit, the side is split deterministically.
    """
    ids, ends = io.BytesIO(), io.BytesIO()
    order, left_out = _write(text, tokenizer, limit, drawing, ids, ends)
    return EncodedText(
        np.frombuffer(ids.getvalue(), _dtype(tokenizer)),
        np.frombuffer(ends.getvalue(), np.int64),
        order=order,
        sides=_sides(text),
        left_out=left_out,
    )


@dataclass(frozen=True)
class Numbered:
    """A text to encode in files.

    Attributes:
        number: identifies the text in the folder.
        text: the pairs, in files.
        drawing: see `encode`.
    """

    number: int
    text: ParallelText
    drawing: Drawing | None = None

    @property
    def name(self) -> str:
        """Name of its folder."""
        drawing = "" if self.drawing is None else f"-{self.drawing.number}"
        return f"{self.number}{drawing}"

    @property
    def pairs(self) -> TextFiles:
        """Its pairs."""
        assert isinstance(self.text.pairs, TextFiles)
        return self.text.pairs

    @property
    def source(self) -> dict[str, object]:
        """The name and the languages of the text."""
        return {"name": self.text.name, "languages": list(self.text.languages)}

    @property
    def is_missing(self) -> bool:
        """Whether the text is not there; only a part of it would be an error."""
        prefixes, sides = self.pairs.prefixes, self.text.languages
        return not any(find_file(prefix, side) for prefix in prefixes for side in sides)

    @property
    def files(self) -> list[Path]:
        """The files with its pairs and their links."""
        endings = self.pairs.endings
        return [
            existing_file(prefix, ending) for prefix in self.pairs.prefixes for ending in endings
        ]

    @property
    def size(self) -> int:
        """Size of its files, in bytes."""
        return sum(path.stat().st_size for path in self.files)


class TokenFiles:
    """Encoded texts in a folder, numbered, each with a record of its inputs."""

    def __init__(self, folder: Path, *vocabularies: Path) -> None:
        """Use a folder.

        Args:
            folder: where the files are or will be written.
            vocabularies: the tokenizer's files, one or one for each side.
        """
        self._folder, self._vocabularies = folder, vocabularies

    def encode_all(
        self, texts: Sequence[Numbered], tokenizer: Tokenizer, limit: int
    ) -> list[EncodedText]:
        """Like the function `encode` for each text, but in files; existing files are read.

        Much text is encoded in a process for each core. A text that is not there may be encoded
        already: the digests in its record then stand for it.

        Args:
            texts: the texts.
            tokenizer: the vocabulary.
            limit: maximum number of tokens of a side.

        Raises:
            UsageError: a text cannot be read, or the disk cannot be written; or a text is not
                there and is not encoded, or was encoded with other settings.
        """
        work = [(numbered, self._about(numbered, limit)) for numbered in texts]
        self._check_encoded([pair for pair in work if pair[0].is_missing], tokenizer)
        missing = [
            (numbered, about)
            for numbered, about in work
            if self._kept(numbered, about, tokenizer) is None
        ]
        processes = min(os.cpu_count() or 1, len(missing))
        if processes > 1 and sum(numbered.size for numbered, _ in missing) > _PARALLEL_BYTES:
            log.info("encoding %d texts in %d processes", len(missing), processes)
            # A process that is forked from one with threads may hang.
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(processes, context) as pool:
                for numbered, about in sorted(missing, key=lambda pair: -pair[0].size):
                    pool.submit(self._write, numbered, about, tokenizer, limit)
        # What a process failed to write is encoded here, so that its error is raised.
        return [self._read(numbered, about, tokenizer, limit) for numbered, about in work]

    def with_links(self, numbered: Numbered) -> ParallelText:
        """The text with the word alignments beside it; of a missing text, those of its record."""
        if not numbered.is_missing or (record := self._record(numbered)) is None:
            return with_links(numbered.text)
        return linked_by(numbered.text, [(src, tgt) for src, tgt in record.get("links", ())])

    def _record(self, numbered: Numbered) -> dict[str, Any] | None:
        """The record of an encoded text, if it is of the same name and languages."""
        try:
            record = json.loads((self._folder / numbered.name / _ABOUT).read_text(encoding="utf-8"))
            return dict(record) if record[_SOURCE] == numbered.source and record["text"] else None
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def _check_encoded(
        self, missing: Sequence[tuple[Numbered, dict[str, Any]]], tokenizer: Tokenizer
    ) -> None:
        """Check that texts which are not there were encoded with the settings of the run."""
        for numbered, about in missing:
            if self._kept(numbered, about, tokenizer) is None:
                record = self._record(numbered) or {}
                other = [name for name in _ENCODING if about.get(name) != record.get(name)]
                raise UsageError(
                    f"{numbered.pairs.prefix}: no such text, and {self._folder / numbered.name}, "
                    f"which was encoded from it, has another {other[0] if other else 'size'}: give "
                    "the text or the settings that it was encoded with"
                )
        if missing:
            log.info(
                "%d texts are not there; %s has them, encoded from text with these digests: %s",
                len(missing),
                self._folder,
                ", ".join(
                    f"{numbered.text.name} {about['text'][0][:12]}" for numbered, about in missing
                ),
            )

    def encode(self, numbered: Numbered, tokenizer: Tokenizer, limit: int) -> EncodedText:
        """As `encode_all`, for one text."""
        return self._read(numbered, self._about(numbered, limit), tokenizer, limit)

    def _about(self, numbered: Numbered, limit: int) -> dict[str, Any]:
        """A record of all that determines the token ids of a text."""
        text, drawing = numbered.text, numbered.drawing
        record = self._record(numbered) if numbered.is_missing else None
        about: dict[str, Any] = {
            "text": record["text"] if record else list(map(_digest, numbered.files)),
            "vocabulary": " ".join(map(_digest, self._vocabularies)),
            "max_pairs": text.max_pairs,
            "max_length_tokens": limit,
        }
        if numbered.pairs.links:
            about["links"] = list(map(list, numbered.pairs.links))
        if drawing is not None:
            about |= {"dropout": drawing.dropout, "drawing": drawing.number}
        return about

    def _kept(
        self, numbered: Numbered, about: dict[str, object], tokenizer: Tokenizer
    ) -> EncodedText | None:
        """The text in its folder; see the function `_open`."""
        return _open(self._folder / numbered.name, about, _sides(numbered.text), _dtype(tokenizer))

    def _write(
        self, numbered: Numbered, about: dict[str, object], tokenizer: Tokenizer, limit: int
    ) -> None:
        """Encode a text, unless another process has done it."""
        folder = self._folder / numbered.name
        with _locked(folder):
            if self._kept(numbered, about, tokenizer) is None:
                log.info("encoding %s", numbered.pairs.prefix)
                try:
                    _make(folder, about, numbered, tokenizer, limit)
                except BadLink as error:
                    raise BadLink(f"{numbered.pairs.prefix}.{error}") from error

    def _read(
        self, numbered: Numbered, about: dict[str, object], tokenizer: Tokenizer, limit: int
    ) -> EncodedText:
        """Open a text; encode it first if it is missing."""
        if (encoded := self._kept(numbered, about, tokenizer)) is None:
            self._write(numbered, about, tokenizer, limit)
            encoded = self._kept(numbered, about, tokenizer)
        if encoded is None:
            folder = self._folder / numbered.name
            raise UsageError(f"{folder}: another run writes to it too; name another --out")
        return encoded


def _digest(path: Path) -> str:
    try:
        return sha256(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time look for a text and make it; the others then find it."""
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = folder.with_name(f".{folder.name}.lock").open("ab")
    with lock:
        # Some network file systems have no locks; files mixed by two runs have wrong sizes.
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sides(text: ParallelText) -> int:
    return len(text.languages) + len(text.links)


def _dtype(tokenizer: Tokenizer) -> npt.DTypeLike:
    most = max(tokenizer.vocab_size, tokenizer.target.vocab_size)
    return np.uint16 if most <= 1 << 16 else np.int32


def _open(
    folder: Path, about: dict[str, object], sides: int, dtype: npt.DTypeLike
) -> EncodedText | None:
    """The text in a folder, if it is complete and was made from the same inputs."""
    try:
        known = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
        left_out, sizes = known.pop("left_out"), known.pop("bytes")
        known.pop(_SOURCE, None)
        if known != {**about, "version": _VERSION} or sizes != _sizes(folder, sizes):
            return None
        order = _mapped(folder / _ORDER, np.int64) if _ORDER in sizes else None
        ids, ends = _mapped(folder / _IDS, dtype), _mapped(folder / _ENDS, np.int64)
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        return None
    whole = len(ends) % sides == 1 and ends[-1] == len(ids)
    if not whole:
        return None
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    return EncodedText(ids, ends, order, sides, left_out, digest)


def _sizes(folder: Path, names: Iterable[str]) -> dict[str, int]:
    return {name: (folder / name).stat().st_size for name in names}


def _mapped(path: Path, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A memory-mapped array; an empty file cannot be mapped."""
    if not path.stat().st_size:
        return np.zeros(0, dtype)
    return np.memmap(path, dtype, "r")


def _make(
    folder: Path,
    about: dict[str, object],
    numbered: Numbered,
    tokenizer: Tokenizer,
    limit: int,
) -> None:
    """Write a text's files; they appear complete or not at all."""
    partial = folder.with_name(f".{folder.name}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        with (partial / _IDS).open("wb") as ids, (partial / _ENDS).open("wb") as ends:
            order, left_out = _write(numbered.text, tokenizer, limit, numbered.drawing, ids, ends)
            _flush(ids, ends)
        if order is not None:
            with (partial / _ORDER).open("wb") as file:
                order.tofile(file)
                _flush(file)
        with (partial / _ABOUT).open("wb") as file:
            sizes = _sizes(partial, [_IDS, _ENDS, *([] if order is None else [_ORDER])])
            known = {**about, "version": _VERSION, "left_out": left_out, "bytes": sizes}
            known[_SOURCE] = numbered.source
            file.write(json.dumps(known).encode())
            _flush(file)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(partial, folder)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise UsageError(f"{folder}: cannot be written: {error.strerror}") from error


def _flush(*files: IO[bytes]) -> None:
    """Make sure that the files survive a power failure."""
    for file in files:
        file.flush()
        os.fsync(file.fileno())


def _write(
    text: ParallelText,
    tokenizer: Tokenizer,
    limit: int,
    drawing: Drawing | None,
    ids: IO[bytes],
    ends: IO[bytes],
) -> tuple[npt.NDArray[np.int64] | None, int]:
    """Write the sides of the pairs that are short enough, and where each side ends.

    If the text has `max_pairs`, the pairs are the first of a shuffle that are short enough. The
    text is read once for the number of pairs wanted, and again for pairs that replace long ones.

    Returns:
        The order in which the pairs were sampled, and how many were skipped until there were
        enough.
    """
    writer = _Writer(text, tokenizer, limit, drawing, ids, ends)
    ranks = drawing_ranks(text)
    if ranks is None:
        writer.add(enumerate(text.pairs))
        return None, len(writer.too_long)
    assert text.max_pairs is not None
    begin, end = 0, text.max_pairs
    while True:
        drawn = (ranks >= begin) & (ranks < end)
        writer.add(
            (int(ranks[index]), pair) for index, pair in enumerate(text.pairs) if drawn[index]
        )
        missing = text.max_pairs - len(writer.taken)
        if missing <= 0 or end >= len(ranks):
            break
        begin, end = end, end + 2 * missing + 100
    taken, too_long = np.array(writer.taken, np.int64), np.array(writer.too_long, np.int64)
    order = np.argsort(taken)[: text.max_pairs]
    last = taken[order[-1]] if len(order) == text.max_pairs else len(ranks)
    return order, int((too_long < last).sum())


class _Writer:
    """Encodes pairs and writes those that are short enough."""

    def __init__(
        self,
        text: ParallelText,
        tokenizer: Tokenizer,
        limit: int,
        drawing: Drawing | None,
        ids: IO[bytes],
        ends: IO[bytes],
    ) -> None:
        self._languages, self._links = text.languages, text.links
        self._tokenizer, self._limit, self._drawing = tokenizer, limit, drawing
        self._ids, self._ends, self._end = ids, ends, 0
        self._ends.write(np.zeros(1, np.int64).tobytes())
        self.taken, self.too_long = array("q"), array("q")
        """Ranks of the pairs that were written, and of the others."""

    def add(self, pairs: Iterable[tuple[int, Sequence[str]]]) -> None:
        """Process more pairs, each with its rank."""
        remaining, seen = iter(pairs), 0
        while chunk := list(itertools.islice(remaining, _PAIRS_AT_A_TIME)):
            seen += len(chunk)
            if seen % _PAIRS_A_REPORT < len(chunk):
                log.info("%d pairs encoded", seen)
            sides = len(chunk[0][1])
            columns = zip(*(pair for _, pair in chunk), strict=True)
            texts = list(itertools.chain(*(pair for _, pair in chunk)))
            encoded = self._encode(list(columns))
            drawn = self._draw(texts, encoded, seen)
            kept: list[list[int]] = []
            for number, (rank, _) in enumerate(chunk):
                of_pair = slice(number * sides, (number + 1) * sides)
                of_texts = encoded[of_pair][: len(self._languages)]
                fits = all(0 < len(side) <= self._limit for side in of_texts)
                # An imported vocabulary may lack characters; the model must not train to generate
                # the unknown token.
                fits = fits and UNKNOWN_ID not in of_texts[-1]
                (self.taken if fits else self.too_long).append(rank)
                kept += drawn[of_pair] if fits else []
            ids = np.fromiter(itertools.chain(*kept), _dtype(self._tokenizer))
            ends = self._end + np.cumsum(np.fromiter(map(len, kept), np.int64))
            self._ids.write(ids.tobytes())
            self._ends.write(ends.tobytes())
            self._end = int(ends[-1]) if kept else self._end

    def _encode(self, columns: Sequence[Sequence[str]]) -> list[list[int]]:
        """The token ids of the sides, then the links: all of the first pair, then the next.

        If each side has its own vocabulary, a text is one-way: source, target.
        """
        texts, links = columns[: len(self._languages)], columns[len(self._languages) :]
        tokenizers = (self._tokenizer, *[self._tokenizer.target] * (len(texts) - 1))
        encoded = [
            tokenizer.encode_all(side) for tokenizer, side in zip(tokenizers, texts, strict=True)
        ]
        for (src, tgt), lines in zip(self._links, links, strict=True):
            ending = links_ending((self._languages[src], self._languages[tgt]))
            pairs = zip(texts[src], texts[tgt], strict=True)
            of_sides = (tokenizers[src], tokenizers[tgt])
            encoded.append(
                [
                    _linked(ending, of_sides, *arguments)
                    for arguments in zip(pairs, lines, strict=True)
                ]
            )
        return list(itertools.chain(*zip(*encoded, strict=True)))

    def _draw(self, texts: list[str], encoded: list[list[int]], seen: int) -> list[list[int]]:
        """The randomly split ids to write for texts whose deterministic ids are `encoded`."""
        if self._drawing is None:
            return encoded
        seed = zlib.crc32(f"{self._drawing.number} {seen}".encode())
        drawn = self._tokenizer.encode_drawn(texts, self._drawing.dropout, seed)
        return [
            side if 0 < len(side) <= self._limit else usual
            for side, usual in zip(drawn, encoded, strict=True)
        ]


def _linked(
    ending: str, tokenizers: Sequence[Tokenizer], texts: Sequence[str], line: str
) -> list[int]:
    """The token positions that a line of links pairs up, in the format of `EncodedText`."""
    if not line.strip():
        return []
    pieces = [tokenizer.pieces(text) for tokenizer, text in zip(tokenizers, texts, strict=True)]
    try:
        return list(itertools.chain(*link_tokens(line, texts, pieces)))
    except BadLink as error:
        raise BadLink(f"{ending}: {error}") from error

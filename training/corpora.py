"""Parallel text that anyone may fetch: where it lies, its licence, and what is in its files.

Knows archives and lines; must not know what is learnt from them.
"""

from __future__ import annotations

import gzip
import lzma
import os
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, islice, zip_longest
from pathlib import Path, PurePosixPath
from typing import IO, cast

from dragoman.errors import UsageError
from dragoman.settings import from_mapping, read_toml
from training.download import LOCK, Source, Watch, fetch

REGISTRY = Path(__file__).with_name("corpora.toml")

_DOWNLOADS = ".downloads"
_LINES_A_REPORT = 10_000
_HELD_OUT = ("valid", "test")
_SEGMENT = re.compile(rb"<seg[^>]*>(.*?)</seg>")


@dataclass(frozen=True)
class SideFile:
    """Where one side of a text lies within what was downloaded."""

    member: str = ""
    """Of an archive; nothing where the download is the text itself."""
    source: int = 0
    """Which of the corpus's sources, counted from 0."""
    column: int | None = None
    """Of lines with tabs, counted from 0."""


@dataclass(frozen=True)
class FetchedText:
    """A parallel text that a corpus gives: its prefix, and its sides by language."""

    prefix: str
    sides: dict[str, SideFile]
    pairs: int | None = None
    held_out: int | None = None
    """Of so many pairs, one goes to the text `valid` and one to `test` beside it: of all pairs with
    the same first side, the same ones each time."""

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Of what becomes of it."""
        if self.held_out is None:
            return (self.prefix,)
        beside = (str(PurePosixPath(self.prefix).with_name(name)) for name in _HELD_OUT)
        return (self.prefix, *beside)

    def prefix_of(self, first_side: bytes) -> str:
        """To which text a pair belongs."""
        if self.held_out is None:
            return self.prefix
        drawn = int.from_bytes(blake2b(first_side, digest_size=8).digest()) % self.held_out
        return self.prefixes[drawn + 1 if drawn < len(_HELD_OUT) else 0]

    def __post_init__(self) -> None:
        prefix = PurePosixPath(self.prefix)
        if not prefix.name or prefix.is_absolute() or ".." in prefix.parts:
            raise UsageError(
                f"prefix is {self.prefix!r}: give one below the folder, such as a/train"
            )
        if len(self.sides) < 2:
            raise UsageError(f"{self.prefix}: has {len(self.sides)} sides: give two or more")
        if self.held_out is not None and self.held_out <= len(_HELD_OUT):
            raise UsageError(f"{self.prefix}: held_out is {self.held_out}: give 3 or more")


@dataclass(frozen=True)
class Corpus:
    """An entry of the registry."""

    name: str
    licence: str
    home: str
    """The page that says so."""
    sources: tuple[Source, ...]
    texts: tuple[FetchedText, ...]

    @property
    def languages(self) -> tuple[str, ...]:
        """Of its texts."""
        return tuple(dict.fromkeys(chain.from_iterable(t.sides for t in self.texts)))

    @property
    def pairs(self) -> int | None:
        """Of all its texts, as far as that is known."""
        known = [text.pairs for text in self.texts if text.pairs is not None]
        return sum(known) if len(known) == len(self.texts) else None

    @property
    def size_bytes(self) -> int | None:
        """What has to be downloaded, as far as that is known."""
        known = [source.size_bytes for source in self.sources if source.size_bytes is not None]
        return sum(known) if len(known) == len(self.sources) else None

    @property
    def pinned(self) -> bool:
        """Whether the digests of all its sources are known beforehand."""
        return all(source.sha256 or source.md5 for source in self.sources)


@dataclass(frozen=True)
class _Registry:
    corpora: tuple[Corpus, ...]


def read_registry(paths: Sequence[Path] = (REGISTRY,)) -> dict[str, Corpus]:
    """Read corpora by their names; those of later files take the place of earlier ones.

    Raises:
        UsageError: a file cannot be read, or an entry makes no sense, by name.
    """
    found: dict[str, Corpus] = {}
    for path in paths:
        for corpus in from_mapping(_Registry, read_toml(path), str(path)).corpora:
            for side in chain.from_iterable(t.sides.values() for t in corpus.texts):
                if not 0 <= side.source < len(corpus.sources):
                    raise UsageError(f"{path}: {corpus.name}: there is no source {side.source}")
            found[corpus.name] = corpus
    return found


def fetch_corpora(
    corpora: Sequence[Corpus],
    data_dir: Path,
    watch: Callable[[str], Watch] = lambda what: lambda done, total: None,
) -> Iterator[tuple[str, int]]:
    """Download corpora and write their texts, one side a language.

    What is there already is left as it is. Downloads are removed once all is written.

    Args:
        corpora: which.
        data_dir: where the texts' prefixes begin.
        watch: gives, for a URL or a text's prefix, what is told of its transfer or its writing.

    Yields:
        The prefix of each text that was written, and its number of pairs.

    Raises:
        UsageError: a download fails, is not what it should be, or the disk cannot be written.
    """
    downloads = data_dir / _DOWNLOADS
    fetched: dict[Source, Path] = {}
    try:
        for corpus in corpora:
            for text in corpus.texts:
                if all(path.exists() for path in _written(text, data_dir)):
                    continue
                for source in corpus.sources:
                    if source not in fetched:
                        lock = data_dir / LOCK
                        fetched[source] = fetch(source, downloads, lock, watch(source.url))
                files = [fetched[source] for source in corpus.sources]
                yield from write_text(text, files, data_dir, watch(text.prefix)).items()
        for path in fetched.values():
            path.unlink()
    finally:
        if downloads.is_dir() and not any(downloads.iterdir()):
            downloads.rmdir()


def _written(text: FetchedText, data_dir: Path) -> list[Path]:
    """The files of its texts, of each one a language."""
    return [data_dir / f"{prefix}.{name}.gz" for prefix in text.prefixes for name in text.sides]


def write_text(
    text: FetchedText,
    files: Sequence[Path],
    data_dir: Path,
    watch: Watch = lambda done, total: None,
) -> dict[str, int]:
    """Write the sides of a text as gzip files, all or none of them.

    Args:
        text: what.
        files: the corpus's sources, as they were downloaded.
        data_dir: where its prefix begins.
        watch: told how many bytes are written.

    Returns:
        The number of pairs, by prefix.

    Raises:
        UsageError: an archive is damaged or lacks a member, the sides differ in their number of
            lines, or the disk cannot be written.
    """
    written = _written(text, data_dir)
    partial = [path.with_name(f".{path.name}.partial") for path in written]
    counts = dict.fromkeys(text.prefixes, 0)
    try:
        written[0].parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            out = iter([stack.enter_context(gzip.open(path, "wb", 6)) for path in partial])
            sides = {prefix: list(islice(out, len(text.sides))) for prefix in counts}
            done = 0
            for number, pair in enumerate(_pairs(text, files)):
                prefix = text.prefix_of(pair[0])
                counts[prefix] += 1
                done += sum(
                    side.write(line) for side, line in zip(sides[prefix], pair, strict=True)
                )
                if (number + 1) % _LINES_A_REPORT == 0:
                    watch(done, None)
        for path, whole in zip(partial, written, strict=True):
            os.replace(path, whole)
    except OSError as error:
        raise UsageError(f"{data_dir / text.prefix}: cannot be written: {error}") from error
    finally:
        for path in partial:
            path.unlink(missing_ok=True)
    return counts


def _pairs(text: FetchedText, files: Sequence[Path]) -> Iterator[tuple[bytes, ...]]:
    """The sides of a text, line by line."""
    sides = [_lines(files[side.source], side) for side in text.sides.values()]
    for number, pair in enumerate(zip_longest(*sides)):
        if None in pair:
            counts = [
                number + (line is not None) + sum(1 for _ in side)
                for line, side in zip(pair, sides, strict=True)
            ]
            found = [f"{n} in {name}" for n, name in zip(counts, text.sides, strict=True)]
            raise UsageError(
                f"{text.prefix}: the sides differ in their number of lines: {', '.join(found)}"
            )
        yield tuple(line.strip() + b"\n" for line in pair)


def _lines(file: Path, side: SideFile) -> Iterator[bytes]:
    """The lines of one side; of SGML, its segments."""
    what = f"{side.member} in {file}" if side.member else str(file)
    try:
        with ExitStack() as stack:
            opened: Iterable[bytes] = _open(file, side.member, stack)
            if side.member.endswith(".gz") or (not side.member and file.suffix == ".gz"):
                opened = stack.enter_context(gzip.open(cast("IO[bytes]", opened), "rb"))
            for line in opened:
                if side.member.endswith(".sgm"):
                    yield from _SEGMENT.findall(line)
                elif side.column is None:
                    yield line
                else:
                    columns = line.rstrip(b"\r\n").split(b"\t")
                    yield columns[side.column] if side.column < len(columns) else b""
    except KeyError as error:
        raise UsageError(f"{what}: is not there") from error
    except _DAMAGES as error:
        raise UsageError(f"{what}: cannot be read: {error}") from error


_DAMAGES = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    EOFError,
    zlib.error,
    lzma.LZMAError,
)


def _open(file: Path, member: str, stack: ExitStack) -> IO[bytes]:
    """A file, or a member of an archive by its name: nothing else of that is ever written.

    Raises:
        KeyError: there is no such member, or it is no plain file.
    """
    if not member:
        return stack.enter_context(file.open("rb"))
    if zipfile.is_zipfile(file):
        return stack.enter_context(stack.enter_context(zipfile.ZipFile(file)).open(member))
    archive = stack.enter_context(tarfile.open(file))  # noqa: SIM115  (the stack closes it)
    wanted = PurePosixPath(member)
    for entry in archive:
        if entry.isfile() and PurePosixPath(entry.name) == wanted:
            found = archive.extractfile(entry)
            assert found is not None  # it is a file
            return stack.enter_context(found)
    raise KeyError(member)

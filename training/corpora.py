"""Parallel text that anyone may fetch: where it lies, its licence, and what is in its files.

Knows archives and lines; must not know what is learnt from them.
"""

from __future__ import annotations

import gzip
import io
import logging
import lzma
import os
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, islice, zip_longest
from pathlib import Path, PurePosixPath
from typing import IO, cast

from dragoman.errors import UsageError
from dragoman.settings import from_mapping, read_toml
from training.data import other_forms
from training.download import LOCK, Download, Source, Watch, discard, fetch, remember

log = logging.getLogger(__name__)

REGISTRY = Path(__file__).with_name("corpora.toml")

_DOWNLOADS = ".downloads"
_LINES_A_REPORT = 10_000
_HELD_OUT = ("valid", "test")
_LANGUAGE = re.compile(r"[A-Za-z0-9][\w-]*")
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

    def __post_init__(self) -> None:
        if self.column is not None and self.column < 0:
            raise UsageError(f"column is {self.column}: give one counted from 0")


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
        leads_out = prefix.is_absolute() or ".." in prefix.parts
        if not prefix.name or leads_out or not self.prefix.isprintable():
            raise UsageError(
                f"prefix is {self.prefix!r}: give one below the folder, such as a/train"
            )
        if len(self.sides) < 2:
            raise UsageError(f"{self.prefix}: has {len(self.sides)} sides: give two or more")
        for language in self.sides:
            if not _LANGUAGE.fullmatch(language):
                raise UsageError(f"{self.prefix}: a side is {language!r}: give a code such as en")
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
    _check_apart(found.values())
    return found


def _check_apart(corpora: Iterable[Corpus]) -> None:
    """See that no two texts would be written into one file.

    Raises:
        UsageError: two would, by name.
    """
    known: dict[Path, str] = {}
    for corpus in corpora:
        for path in chain.from_iterable(_written(text, Path()) for text in corpus.texts):
            if path in known:
                raise UsageError(
                    f"{corpus.name}: {path} is written by {known[path]} already; give another "
                    "prefix"
                )
            known[path] = corpus.name


def fetch_corpora(
    corpora: Sequence[Corpus],
    data_dir: Path,
    watch: Callable[[str], Watch] = lambda what: lambda done, total: None,
) -> Iterator[tuple[str, int]]:
    """Download corpora and write their texts, one side a language.

    What is there already is left as it is. A corpus's downloads are removed once it is written.

    Args:
        corpora: which.
        data_dir: where the texts' prefixes begin.
        watch: gives, for a URL or a text's prefix, what is told of its transfer or its writing.

    Yields:
        The prefix of each text that was written, and its number of pairs.

    Raises:
        UsageError: a download fails or is not what it should be, the disk cannot be written, or
            what would be written is hidden by another form of it.
    """
    downloads = data_dir / _DOWNLOADS
    fetched: dict[Source, Download] = {}
    try:
        for number, corpus in enumerate(corpora):
            missing = [text for text in corpus.texts if not _is_written(text, data_dir)]
            for source in corpus.sources if missing else ():
                if source not in fetched:
                    what = (source, downloads, data_dir / LOCK, watch(source.url))
                    fetched[source] = fetch(*what)
            files = [fetched[source] for source in corpus.sources if missing]
            for text in missing:
                yield from _write(text, files, data_dir, watch(text.prefix)).items()
            later = set(chain.from_iterable(one.sources for one in corpora[number + 1 :]))
            for source in set(corpus.sources) - later:
                (downloads / source.name).unlink(missing_ok=True)
                fetched.pop(source, None)
    finally:
        if downloads.is_dir() and not any(downloads.iterdir()):
            downloads.rmdir()


def _is_written(text: FetchedText, data_dir: Path) -> bool:
    """Whether it is there; what is there in another form would hide what was written.

    Raises:
        UsageError: some of it is there in another form.
    """
    paths = _written(text, data_dir)
    if all(path.exists() for path in paths):
        return True
    for path in paths:
        for other in other_forms(path):
            raise UsageError(f"{path}: {other} lies there, and one would hide the other; remove it")
    return False


def _write(
    text: FetchedText, downloads: Sequence[Download], data_dir: Path, watch: Watch
) -> dict[str, int]:
    """Write a text and remember its downloads, or let nothing stay of one that is damaged."""
    try:
        counts = write_text(text, [one.path for one in downloads], data_dir, watch)
    except _Damaged as error:
        for download in downloads:
            if download.path == error.file:
                discard(download, data_dir / LOCK)
        raise UsageError(f"{error}; it has been removed, run it again to fetch it") from error
    for download in downloads:
        remember(download, data_dir / LOCK)
    found = sum(counts.values())
    if text.pairs not in (None, found):
        log.warning("%s: has %d pairs, the registry says %d", text.prefix, found, text.pairs)
    return counts


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
            lines, have none or are no UTF-8, or the disk cannot be written.
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
        if not any(counts.values()):
            raise UsageError(f"{text.prefix}: there is no pair in it{_anew(files)}")
        for path, whole in zip(partial, written, strict=True):
            os.replace(path, whole)
    except OSError as error:
        raise UsageError(f"{data_dir / text.prefix}: cannot be written: {error}") from error
    finally:
        with suppress(OSError):
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
                f"{_anew(files)}"
            )
        for line, name in zip(pair, text.sides, strict=True):
            if not _is_utf8(line):
                raise UsageError(
                    f"{text.prefix}: line {number + 1} in {name} is not UTF-8{_anew(files)}"
                )
        yield tuple(line.strip() + b"\n" for line in pair)


def _anew(files: Sequence[Path]) -> str:
    """What to do about files that are whole, where it is not the registry that is wrong."""
    return f"; to fetch it anew, remove {files[0].parent}"


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


class _Damaged(UsageError):
    """A download that cannot be read."""

    def __init__(self, message: str, file: Path) -> None:
        super().__init__(message)
        self.file = file


def _lines(file: Path, side: SideFile) -> Iterator[bytes]:
    """The lines of one side; of SGML, its segments."""
    what = f"{side.member} in {file}" if side.member else str(file)
    try:
        with ExitStack() as stack:
            for line in _unpacked(_open(file, side.member, stack), stack):
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
        raise _Damaged(f"{what}: cannot be read: {error}", file) from error
    except RuntimeError as error:  # of a zip file with a password, or packed in a rare way
        raise UsageError(f"{what}: cannot be read: {error}") from error


def _unpacked(file: IO[bytes], stack: ExitStack) -> Iterable[bytes]:
    """The lines of a file that is packed or not, whatever its name says."""
    begin = cast("io.BufferedReader", file).peek(len(_XZ))
    if begin.startswith(_GZIP):
        return stack.enter_context(gzip.open(file, "rb"))
    if begin.startswith(_XZ):
        return stack.enter_context(lzma.open(file, "rb"))
    return file


_GZIP, _XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"

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

"""Converts downloads to parallel text: archives, SGML, columns and plain lines, by side."""

from __future__ import annotations

import gzip
import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice, zip_longest
from pathlib import Path, PurePosixPath
from typing import IO, cast

from dragoman.kernel.errors import UsageError
from dragoman.kernel.replacement import replacing
from dragoman_training.public_text.corpora import FetchedText, SideFile
from dragoman_training.transfer import Watch

_LINES_A_REPORT = 10_000
_SEGMENT = re.compile(rb"<seg[^<>]*+>((?:[^<]|<(?!/?seg))*+)</seg>")
_GZIP, _XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"
_DAMAGES = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    EOFError,
    zlib.error,
    lzma.LZMAError,
)


def write_text(
    text: FetchedText,
    files: Sequence[Path],
    data_dir: Path,
    watch: Watch = lambda _done, _total: None,
) -> dict[str, int]:
    """Write the sides of a text as gzip files, all or none of them.

    Args:
        text: what to write.
        files: the corpus's sources, as they were downloaded.
        data_dir: where its prefix starts.
        watch: called with the number of bytes written.

    Returns:
        The number of pairs, by prefix.

    Raises:
        UsageError: an archive is damaged or lacks a member, the sides differ in their number of
            lines, are empty or are not UTF-8, or the disk cannot be written.
    """
    written = text.files(data_dir)
    counts = dict.fromkeys(text.prefixes, 0)
    try:
        written[0].parent.mkdir(parents=True, exist_ok=True)
        with replacing(*written) as partial, ExitStack() as stack:
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
                raise UsageError(f"{text.prefix}: has no pairs{_anew(files)}")
    except OSError as error:
        raise UsageError(f"{data_dir / text.prefix}: cannot be written: {error}") from error
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
            sizes = [f"{n} in {name}" for n, name in zip(counts, text.sides, strict=True)]
            raise UsageError(
                f"{text.prefix}: the sides differ in their number of lines: {', '.join(sizes)}"
                f"{_anew(files)}"
            )
        for line, name in zip(pair, text.sides, strict=True):
            if not _is_utf8(line):
                raise UsageError(
                    f"{text.prefix}: line {number + 1} in {name} is not UTF-8{_anew(files)}"
                )
        yield tuple(line.strip() + b"\n" for line in pair)


def _anew(files: Sequence[Path]) -> str:
    """What to do if the files are complete and the registry is right."""
    return f"; to download it again, remove {files[0].parent}"


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


class Damaged(UsageError):
    """A download that cannot be read."""

    def __init__(self, message: str, file: Path) -> None:
        """Keep the file that is damaged."""
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
        raise Damaged(f"{what}: cannot be read: {error}", file) from error
    except RuntimeError as error:  # a zip file with a password or rare compression
        raise UsageError(f"{what}: cannot be read: {error}") from error


def _unpacked(file: IO[bytes], stack: ExitStack) -> Iterable[bytes]:
    """The lines of a file, compressed or not, whatever its name says."""
    begin = cast("io.BufferedReader", file).peek(len(_XZ))
    if begin.startswith(_GZIP):
        return stack.enter_context(gzip.open(file, "rb"))
    if begin.startswith(_XZ):
        return stack.enter_context(lzma.open(file, "rb"))
    return file


def _open(file: Path, member: str, stack: ExitStack) -> IO[bytes]:
    """Open a file, or a member of an archive by its name; nothing else is extracted."""
    if not member:
        return stack.enter_context(file.open("rb"))
    if zipfile.is_zipfile(file):
        return stack.enter_context(stack.enter_context(zipfile.ZipFile(file)).open(member))
    archive = stack.enter_context(tarfile.open(file))  # noqa: SIM115  (the stack closes it)
    path = PurePosixPath(member)
    for entry in archive:
        if entry.isfile() and PurePosixPath(entry.name) == path:
            content = archive.extractfile(entry)
            assert content is not None  # it is a file
            return stack.enter_context(content)
    raise KeyError(member)

"""A file, line by line, into another one; after an interruption it goes on where it stopped.

Of a document (`Document`) the lines are paragraphs.

What is written goes into `NAME.partial`, which gets its name when it is whole. Beside it stands
`NAME.partial.json`, with a digest of the input, its format and the options, so that nothing else is
added to it.
"""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import errno
import hashlib
import itertools
import json
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from dragoman_options.arguments import OptionArguments
from dragoman_options.table import check

from dragoman_client.binary_files import check_not_binary
from dragoman_client.documents import Document, line_end
from dragoman_client.errors import InvalidRequest
from dragoman_client.line_formats import LineFormat
from dragoman_client.line_translation import BatchTranslator, Line, Refuse, translate_lines

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class FileProgress:
    """How far a file is translated.

    Attributes:
        lines: written, those of earlier runs included.
        of: all there are.
        resumed_at: lines that were there when this run began.
        refused: lines that the server refused, and that were left empty.
        cut: translations of this run that the limit of tokens cut.
    """

    lines: int
    of: int
    resumed_at: int = 0
    refused: int = 0
    cut: int = 0


Tell = Callable[[FileProgress], None]


def translate_file(
    translator: BatchTranslator,
    source: Path,
    target: Path,
    *,
    form: LineFormat,
    batch_size: int,
    concurrency: int,
    resume: bool,
    force: bool,
    options: OptionArguments,
    tell: Tell,
    refuse: Refuse,
) -> FileProgress:
    """See `Translator.translate_file`.

    Raises:
        FileExistsError: the target exists, or was begun.
        OSError: a file cannot be read or written.
        TranslationError: a request failed; what was written stays, to be resumed.
        ValueError: the source is not of the format, or what is there is of another translation.
    """
    if resume and force:
        raise ValueError("resume and force: give one of them")
    if not source.is_file():
        source.stat()  # which says that it is not there
        raise ValueError(f"{source}: not a file, and only a file can be read once more")
    # All lines are looked at before one is sent: a mended source could not be resumed.
    digest, count = _digest(source), sum(1 for _ in read_lines(source, form))
    if isinstance(form, Document):
        options = form.with_sentences(options)
    asked = {"source_sha256": digest, "format": repr(form), "options": check(options)}
    by_line = bool(line_end(form))
    with _PartialFile.opened(source, target, asked, resume, force, by_line) as output:
        if output.lines > count:
            raise ValueError(f"{output.path}: has more lines than {source}")
        progress = FileProgress(output.lines, count, output.lines, output.refused)

        def note(number: int, error: InvalidRequest) -> None:
            nonlocal progress
            progress = dataclasses.replace(progress, refused=progress.refused + 1)
            output.keep_refused(progress.refused)
            refuse(progress.resumed_at + number, error)

        tell(progress)
        lines = read_lines(source, form, progress.lines)
        with contextlib.closing(lines):
            for line, translation in translate_lines(
                translator,
                # A source that grows meanwhile is noticed by one line too many.
                itertools.islice(lines, count - output.lines + 1),
                batch_size=batch_size,
                concurrency=concurrency,
                options=options,
                refuse=note,
            ):
                output.write(form.write(line.line, translation) + line_end(form))
                cut = translation.finish_reason == "length"
                progress = dataclasses.replace(
                    progress, lines=progress.lines + 1, cut=progress.cut + cut
                )
                tell(progress)
        if progress.lines != count:
            raise ValueError(f"{source}: has changed meanwhile: it had {count} lines")
        output.finish()
    return progress


def read_lines(source: Path, form: LineFormat, skip: int = 0) -> Generator[Line, None, None]:
    """Lines of a file in UTF-8, without their ends, each with its text.

    Args:
        source: the file.
        form: of its lines.
        skip: lines that are passed over.

    Raises:
        OSError: it cannot be read.
        ValueError: the file is no text, or a line is not UTF-8, or not of the format; the message
            names it.
    """
    with source.open("rb") as file:
        check_not_binary(file.peek(), str(source))
        yield from lines_of(file, form, str(source), skip)


def lines_of(file: BinaryIO, form: LineFormat, name: str, skip: int = 0) -> Iterator[Line]:
    """As `read_lines`, of what is open already.

    Only a line feed ends a line: Python's text mode would also split at what UTF-8 text may hold.
    """
    if isinstance(form, Document):
        for paragraph in itertools.islice(form.paragraphs(file, name), skip, None):
            yield Line(paragraph, form.read(paragraph))
        return
    for number, raw in enumerate(file, start=1):
        if number <= skip:
            continue
        try:
            yield line_of(raw, form, is_first=number == 1)
        except ValueError as error:
            raise ValueError(f"{name}, line {number}: {error}") from error


def line_of(raw: bytes, form: LineFormat, is_first: bool) -> Line:
    """A line without its end, and its text.

    Args:
        raw: the line as it is in a file.
        form: of the line.
        is_first: whether it is the file's first, which may begin with a byte order mark.

    Raises:
        ValueError: it is not UTF-8, or not of the format.
    """
    content = raw.removeprefix(codecs.BOM_UTF8) if is_first else raw
    try:
        line = content.rstrip(b"\r\n").decode("utf-8")
    except UnicodeDecodeError as error:
        mend = "convert the input, for example with iconv"
        raise ValueError(f"not valid UTF-8: {mend}") from error
    return Line(line, form.read(line))


def _digest(source: Path) -> str:
    with source.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_absent(target: Path) -> None:
    if target.exists():
        message = "exists, give force=True to replace it"
        raise FileExistsError(errno.EEXIST, message, str(target))


def _lock(file: BinaryIO, path: Path) -> None:
    """Keep other runs away, until the file is closed."""
    try:
        import fcntl
    except ImportError:
        return  # Windows does not have it
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(f"{path}: another run is writing it") from None


class _PartialFile:
    """What is written before it is whole; nobody else writes to it meanwhile.

    Attributes:
        path: where it is.
        lines: whole ones that an earlier run has written.
        refused: how many of them were refused.
    """

    def __init__(self, path: Path, target: Path, file: BinaryIO, by_line: bool) -> None:
        """Use `opened`."""
        self.path, self._target, self._file = path, target, file
        self._by_line = by_line
        self._note = path.with_name(path.name + ".json")
        self._new_note = path.with_name(path.name + ".json.new")
        self._asked: Mapping[str, object] = {}
        self._replaces = False
        self.lines = self.refused = 0
        self._written = self._written_bytes = 0

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls,
        source: Path,
        target: Path,
        asked: Mapping[str, object],
        resume: bool,
        force: bool,
        by_line: bool = True,
    ) -> Iterator[Self]:
        """Make it, or find what was written before.

        Args:
            source: what is translated.
            target: its name when it is whole.
            asked: of what it is a translation.
            resume: add to what is there.
            force: replace what is there.
            by_line: what is written are lines, which can be counted; else each is noted.

        Raises:
            FileExistsError: it was begun, or the target exists.
            OSError: it cannot be written.
            ValueError: what is there is of another translation, or somebody writes to it.
        """
        path = target.with_name(target.name + ".partial")
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
        for taken in (target, path, path.with_name(path.name + ".json")):
            if taken.exists() and taken.samefile(source):
                raise ValueError(f"{source}: is to be read and to be written")
        begun = path.exists() and path.stat().st_size > 0
        if begun and not (resume or force):
            message = "exists, give resume=True to continue it or force=True to replace it"
            raise FileExistsError(errno.EEXIST, message, str(path))
        if not (begun or force):
            _check_absent(target)
        with path.open("ab") as file:
            _lock(file, path)
            output = cls(path, target, file, by_line)
            if force:
                file.truncate(0)
            elif begun:
                output._go_on(asked)
            output._asked, output._replaces = asked, output._replaces or force
            output.keep_refused(output.refused)
            yield output

    def write(self, line: str) -> None:
        """Add a line with its end, or a paragraph, at once."""
        written = line.encode()
        self._file.write(written)
        self._file.flush()
        self._written += 1
        self._written_bytes += len(written)
        if not self._by_line:
            self._write_note()

    def keep_refused(self, refused: int) -> None:
        """Note how many lines were refused, for the next run."""
        self.refused = refused
        self._write_note()

    def _write_note(self) -> None:
        note: dict[str, object] = {
            "asked": self._asked,
            "refused": self.refused,
            "replaces": self._replaces,
        }
        if not self._by_line:
            note["written"] = [self._written, self._written_bytes]
        self._new_note.write_text(json.dumps(note, sort_keys=True), encoding="utf-8")
        os.replace(
            self._new_note, self._note
        )  # a note that is half written would lose what was done

    def finish(self) -> None:
        """Give it its name.

        Raises:
            FileExistsError: meanwhile another file has it.
        """
        if not self._replaces:
            _check_absent(self._target)
        os.fsync(self._file.fileno())
        os.replace(self.path, self._target)
        self._note.unlink(missing_ok=True)

    def _go_on(self, asked: Mapping[str, object]) -> None:
        """See what is there, and cut off a line whose end was not written."""
        try:
            note = json.loads(self._note.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            note = None
        if not isinstance(note, dict) or note.get("asked") != json.loads(json.dumps(asked)):
            raise ValueError(
                f"{self.path}: begun with another input, format or options: force replaces it"
            )
        self.refused, self._replaces = note.get("refused", 0), note.get("replaces", False)
        if not self._replaces:
            _check_absent(self._target)
        if not self._by_line:
            self._written, self._written_bytes = note["written"]
            if self.path.stat().st_size < self._written_bytes:
                raise ValueError(f"{self.path}: lacks what was written: force replaces it")
            self.lines = self._written
            self._file.truncate(self._written_bytes)
            return
        whole = position = 0
        with self.path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                if b"\n" in chunk:
                    self.lines += chunk.count(b"\n")
                    whole = position + chunk.rindex(b"\n") + 1
                position += len(chunk)
        self._file.truncate(whole)

"""Translates a file line by line into another file, and can resume after an interruption.

The lines of a document (`Document`) are its paragraphs.

The output is written to `NAME.partial`, which is renamed when it is complete. `NAME.partial.json`
next to it has a digest of the input, the format and the options, so that only the same translation
is resumed.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Self

from dragoman_options.arguments import OptionArguments
from dragoman_options.table import check

from dragoman_client.core.errors import InvalidRequest
from dragoman_client.files.compressed_files import HEAD_BYTES, opened
from dragoman_client.files.documents import Document, line_end
from dragoman_client.files.file_formats import check_not_binary
from dragoman_client.files.file_report import FileReport
from dragoman_client.files.line_formats import LineFormat
from dragoman_client.files.line_translation import Line, Refuse, TextTranslator, translate_lines
from dragoman_client.files.partial_output import check_absent, lock, partial_path

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class FileProgress:
    """Progress of the translation of a file.

    Attributes:
        lines: number of written lines, including those of earlier runs.
        of: number of all lines.
        resumed_at: number of lines already written when this run began.
        refused: number of lines that the server refused; they were left empty.
        cut: number of translations of this run that the token limit cut.
        report: what was translated in this run, and what was left; it grows until the file is done.
    """

    lines: int
    of: int
    resumed_at: int = 0
    refused: int = 0
    cut: int = 0
    report: FileReport = field(default_factory=FileReport, compare=False)


Tell = Callable[[FileProgress], None]


def translate_file(
    translator: TextTranslator,
    source: Path,
    target: Path,
    *,
    form: LineFormat,
    batch_size: int,
    concurrency: int,
    resume: bool,
    force: bool,
    options: OptionArguments,
    least_confidence: float | None = None,
    tell: Tell,
    refuse: Refuse,
) -> FileProgress:
    """See `Translator.translate_file`.

    Raises:
        FileExistsError: the target exists, or was begun.
        OSError: a file cannot be read or written.
        TranslationError: a request failed; the output so far is kept and can be resumed.
        ValueError: the source does not have the format, or the output so far belongs to another
            translation.
    """
    if resume and force:
        raise ValueError("resume and force: give one of them")
    if not source.is_file():
        source.stat()  # raises if it does not exist
        raise ValueError(f"{source}: not a regular file; the input is read twice")
    # All lines are checked before the first is sent: a corrected source could not be resumed.
    digest, count = _digest(source), sum(1 for _ in read_lines(source, form))
    if isinstance(form, Document):
        options = form.with_sentences(options)
    identity = {"source_sha256": digest, "format": repr(form), "options": check(options)}
    by_line = bool(line_end(form))
    with _PartialFile.opened(source, target, identity, resume, force, by_line) as output:
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
                # One more line, to notice a source that grows meanwhile.
                itertools.islice(lines, count - output.lines + 1),
                batch_size=batch_size,
                concurrency=concurrency,
                options=options,
                refuse=note,
            ):
                output.write(form.write(line.line, translation) + line_end(form))
                number, report = progress.lines + 1, progress.report
                report.add(number, line.text, translation, least_confidence)
                progress = dataclasses.replace(progress, lines=number, cut=report.cut)
                tell(progress)
        if progress.lines != count:
            raise ValueError(f"{source}: changed during the translation: it had {count} lines")
        output.finish()
    return progress


def read_lines(source: Path, form: LineFormat, skip: int = 0) -> Generator[Line, None, None]:
    """Yield the lines of a file in UTF-8, without line ends, each with its text.

    Args:
        source: the file; it may be compressed by gzip, xz or bzip2.
        form: format of its lines.
        skip: number of lines to skip.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is binary, or a line is not UTF-8 or does not have the format; the
            message names the line.
    """
    with opened(source) as file:
        check_not_binary(str(source), file.peek(HEAD_BYTES))
        yield from lines_of(file, form, str(source), skip)


def lines_of(file: BinaryIO, form: LineFormat, name: str, skip: int = 0) -> Iterator[Line]:
    """`read_lines` for an open file.

    Only a line feed ends a line; Python's text mode would also split at other characters.
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
    """Parse a line.

    Args:
        raw: the line in the file, with its end.
        form: format of the line.
        is_first: whether it is the first line, which may begin with a byte order mark.

    Raises:
        ValueError: the line is not UTF-8, or does not have the format.
    """
    content = raw.removeprefix(codecs.BOM_UTF8) if is_first else raw
    try:
        line = content.rstrip(b"\r\n").decode("utf-8")
    except UnicodeDecodeError as error:
        fix = "convert the input, for example with iconv"
        raise ValueError(f"not valid UTF-8: {fix}") from error
    return Line(line, form.read(line))


def _digest(source: Path) -> str:
    with source.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _PartialFile:
    """The incomplete output, locked against other runs.

    Attributes:
        path: path of the partial file.
        lines: number of complete lines that an earlier run wrote.
        refused: how many of them were refused.
    """

    def __init__(self, path: Path, target: Path, file: BinaryIO, by_line: bool) -> None:
        """Use `opened`."""
        self.path, self._target, self._file = path, target, file
        self._by_line = by_line
        self._note = path.with_name(path.name + ".json")
        self._new_note = path.with_name(path.name + ".json.new")
        self._identity: Mapping[str, object] = {}
        self._replaces = False
        self.lines = self.refused = 0
        self._written = self._written_bytes = 0

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls,
        source: Path,
        target: Path,
        identity: Mapping[str, object],
        resume: bool,
        force: bool,
        by_line: bool = True,
    ) -> Iterator[Self]:
        """Create the partial file, or open the one of an earlier run.

        Args:
            source: the file to translate.
            target: name of the output when it is complete.
            identity: digest, format and options of this translation.
            resume: continue an existing partial file.
            force: replace an existing partial file.
            by_line: whether the output consists of lines, which can be counted; otherwise the note
                counts what was written.

        Raises:
            FileExistsError: the partial file or the target exists.
            OSError: the file cannot be written.
            ValueError: the partial file belongs to another translation, or another run is writing
                it.
        """
        path = partial_path(source, target)
        begun = path.exists() and path.stat().st_size > 0
        if begun and not (resume or force):
            message = "exists, give resume=True to continue it or force=True to replace it"
            raise FileExistsError(errno.EEXIST, message, str(path))
        if not (begun or force):
            check_absent(target)
        with path.open("ab") as file:
            lock(file, path)
            output = cls(path, target, file, by_line)
            if force:
                file.truncate(0)
            elif begun:
                output._go_on(identity)
            output._identity, output._replaces = identity, output._replaces or force
            output.keep_refused(output.refused)
            yield output

    def write(self, line: str) -> None:
        """Append a line with its end, or a paragraph, and flush."""
        written = line.encode()
        self._file.write(written)
        self._file.flush()
        self._written += 1
        self._written_bytes += len(written)
        if not self._by_line:
            self._write_note()

    def keep_refused(self, refused: int) -> None:
        """Save how many lines were refused, for the next run."""
        self.refused = refused
        self._write_note()

    def _write_note(self) -> None:
        note: dict[str, object] = {
            "asked": self._identity,
            "refused": self.refused,
            "replaces": self._replaces,
        }
        if not self._by_line:
            note["written"] = [self._written, self._written_bytes]
        self._new_note.write_text(json.dumps(note, sort_keys=True), encoding="utf-8")
        os.replace(
            self._new_note, self._note
        )  # atomic: a half-written note would lose the progress

    def finish(self) -> None:
        """Rename the complete output."""
        if not self._replaces:
            check_absent(self._target)
        os.fsync(self._file.fileno())
        os.replace(self.path, self._target)
        self._note.unlink(missing_ok=True)

    def _go_on(self, identity: Mapping[str, object]) -> None:
        """Read the state of the earlier run, and truncate an incomplete last line."""
        try:
            note = json.loads(self._note.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            note = None
        if not isinstance(note, dict) or note.get("asked") != json.loads(json.dumps(identity)):
            raise ValueError(
                f"{self.path}: begun with another input, format or options: use force to replace it"
            )
        self.refused, self._replaces = note.get("refused", 0), note.get("replaces", False)
        if not self._replaces:
            check_absent(self._target)
        if not self._by_line:
            self._written, self._written_bytes = note["written"]
            if self.path.stat().st_size < self._written_bytes:
                raise ValueError(f"{self.path}: shorter than recorded: use force to replace it")
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

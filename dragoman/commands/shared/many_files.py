"""The translation of several files and folders."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.commands.shared.asking import one_line
from dragoman.commands.shared.file_reports import FileReports
from dragoman.commands.shared.line_progress import Show, line_progress
from dragoman.kernel.errors import DragomanError, UsageError
from dragoman.kernel.replacement import exists

if TYPE_CHECKING:
    from dragoman_client import FileReport

_ENDS = ("translated", "finished before", "of other formats", "failed")
"""What becomes of files, in the order of the report."""
_log = logging.getLogger(__name__)


class UnknownFormat(DragomanError):
    """A file has no format that can be translated."""


@dataclass(frozen=True)
class FilePair:
    """A file and its output.

    Attributes:
        source: the file.
        target: its output.
        is_named: whether the command line names the file, and not only a folder with it.
        size_bytes: size of the file; 0 if it cannot be read.
    """

    source: Path
    target: Path
    is_named: bool
    size_bytes: int = 0


def are_many(inputs: Sequence[Path], output: Path | None) -> bool:
    """Whether inputs are several files or a folder, or their output is a folder."""
    is_folder = any(path.is_dir() for path in (*inputs, output) if path is not None)
    return len(inputs) > 1 or (bool(inputs) and is_folder)


def pairs_of(
    inputs: Sequence[Path], output: Path | None, *, resume: bool, force: bool
) -> list[FilePair]:
    """Returns the files of folders and their outputs, which have the same relative names.

    Hidden files and folders, links to folders, and the output itself are left out.

    Raises:
        UsageError: there is no folder for the output, two files have the same output, an output is
            also an input, or an output exists and may be neither replaced nor skipped.
    """
    if output is None:
        raise UsageError("--output: name a folder for the translations of several files")
    if output.exists() and not output.is_dir():
        raise UsageError(f"--output {output} is a file; name a folder")
    pairs: dict[Path, FilePair] = {}
    for path in inputs:
        if path.is_dir() and path.resolve() == output.resolve():
            raise UsageError(f"{path} is both the input and the output")
        for pair in _pairs(path, output):
            other = pairs.setdefault(pair.target, pair)
            if other.source != pair.source:
                both = f"{other.source} and {pair.source}"
                raise UsageError(f"{both} have the same output, {pair.target}")
    sources = {pair.source.resolve() for pair in pairs.values()}
    for target in pairs:
        if target.resolve() in sources:
            raise UsageError(f"{target} is both an input and an output")
        if target.exists() and not (resume or force):
            raise exists(target, resumable=True)
    return list(pairs.values())


def _pairs(path: Path, output: Path) -> Iterator[FilePair]:
    if not path.is_dir():
        size_bytes = path.stat().st_size if path.exists() else 0
        yield FilePair(path, output / path.name, True, size_bytes)
        return
    out = output.resolve()
    for folder, subfolders, names in os.walk(path, onerror=_refuse):
        subfolders[:] = sorted(
            name
            for name in subfolders
            if not name.startswith(".") and Path(folder, name).resolve() != out
        )
        for name in sorted(names):
            source = Path(folder, name)
            if not name.startswith(".") and source.is_file():
                target = output / source.relative_to(path)
                yield FilePair(source, target, False, source.stat().st_size)


def _refuse(error: OSError) -> None:
    raise UsageError(f"{error.filename}: cannot be read: {error.strerror}") from error


class ManyFiles:
    """A translation of several files, and its progress."""

    fix = "; --resume skips the finished files"
    """How to continue an interrupted run, for messages."""

    def __init__(
        self,
        pairs: Sequence[FilePair],
        translate: Callable[[FilePair, Show], FileReport],
        *,
        resume: bool,
        quiet: bool,
    ) -> None:
        """Store what to do.

        Args:
            pairs: the files.
            translate: translates a file; raises `UnknownFormat`, or another error if it fails.
            resume: whether to skip files that have an output.
            quiet: whether to show no progress.
        """
        from dragoman_client import FileReport

        self._pairs, self._translate = pairs, translate
        self._resume, self._quiet = resume, quiet
        self._total, self._ends = FileReport(), Counter(dict.fromkeys(_ENDS, 0))

    @property
    def after(self) -> str:
        """What was done, for messages."""
        return f" after {self._ends['translated']} files"

    def run(self, reports: FileReports) -> None:
        """Translate the files, one after the other.

        Raises:
            TranslationError: a request failed, for another reason than a text.
        """
        done_bytes = 0
        with line_progress(self._quiet, "text") as show:
            for pair in self._pairs:
                if self._resume and pair.target.exists():
                    self._ends["finished before"] += 1
                else:
                    self._ends[self._end(pair, self._show(show, pair, done_bytes), reports)] += 1
                done_bytes += pair.size_bytes

    def report(self) -> None:
        """Report the counts of all files.

        Raises:
            DragomanError: files failed, or texts were refused.
        """
        number, failed = len(self._pairs), self._ends["failed"]
        files = ", ".join(f"{count} {end}" for end, count in self._ends.items() if count)
        _log.info("%d files: %s; %s", number, files or "none", self._total)
        if failed:
            raise DragomanError(f"{failed} of {number} files were not translated")
        if refused := self._total.left["refused"]:
            raise DragomanError(f"{refused} texts were refused and left as they were")

    def _end(self, pair: FilePair, show: Show, reports: FileReports) -> str:
        """Translate a file; returns what became of it."""
        from dragoman_client import TranslationError

        try:
            pair.target.parent.mkdir(parents=True, exist_ok=True)
            report = self._translate(pair, show)
        except TranslationError:
            raise
        except (DragomanError, OSError, ValueError) as error:
            reports.fail(pair.source, one_line(error))
            is_other = isinstance(error, UnknownFormat) and not pair.is_named
            return "of other formats" if is_other else "failed"
        reports.add(pair.source, pair.target, report)
        self._total.add_file(report)
        return "translated"

    def _show(self, show: Show, pair: FilePair, done_bytes: int) -> Show:
        """Returns the progress of a file as that of all."""
        all_bytes, texts = sum(pair.size_bytes for pair in self._pairs) or 1, self._total.texts

        def show_all(done: int, _before: int, of: int | None, _share: float | None = None) -> None:
            share = (done_bytes + pair.size_bytes * done / (of or 1)) / all_bytes
            show(texts + done, 0, None, share)

        return show_all

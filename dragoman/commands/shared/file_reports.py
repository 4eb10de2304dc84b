"""Reports of translated files: a line of the log for each, and a JSON object in a file."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from dragoman.kernel.errors import UsageError
from dragoman.kernel.replacement import check_file

if TYPE_CHECKING:
    from dragoman_client import FileReport

_log = logging.getLogger(__name__)


class FileReports:
    """Writes reports."""

    def __init__(self, file: IO[str] | None = None) -> None:
        """Store the file for JSON; None: there is none."""
        self._file = file

    @classmethod
    @contextlib.contextmanager
    def opened(cls, name: str | None, *, resume: bool, force: bool) -> Iterator[Self]:
        """Open the file for JSON.

        Args:
            name: its name; `-` is standard output, None none.
            resume: append to an existing file.
            force: replace an existing file.

        Raises:
            UsageError: it exists, or cannot be written.
        """
        if name is None or name == "-":
            yield cls(sys.stdout if name else None)
            return
        if not resume:
            check_file(Path(name), force)
        try:
            file = open(name, "a" if resume else "w", encoding="utf-8")  # noqa: SIM115 - below
        except OSError as error:
            raise UsageError(f"--report {name}: cannot be written: {error.strerror}") from error
        with file:
            yield cls(file)

    def add(self, source: Path, target: Path, report: FileReport) -> None:
        """Report what was translated in a file."""
        _log.info("%s: %s", source, report)
        self._write({"file": str(source), "output": str(target), **report.as_json()})

    def fail(self, source: Path, error: str) -> None:
        """Report why a file was not translated."""
        _log.warning("%s", error if str(source) in error else f"{source}: {error}")
        self._write({"file": str(source), "error": error})

    def _write(self, report: dict[str, Any]) -> None:
        if self._file is not None:
            # ASCII, since names of files may have bytes that are not UTF-8.
            print(json.dumps(report), file=self._file, flush=True)

"""The folder of documents: for each a folder with its text, its translation and how far that is."""

from __future__ import annotations

import codecs
import fcntl
import logging
import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from dragoman_gateway.core.errors import InvalidInput

State = Literal["queued", "translating", "done", "failed", "cancelled"]
_CHUNK_BYTES = 1 << 18
_SAMPLE_CHARACTERS = 4000
_LOG = logging.getLogger(__name__)
_SOURCE, _PARTIAL, _RESULT, _RECORD = "source", "partial", "result", "job.json"
_NEW_RECORD = "job.new"
_ID = re.compile("[0-9a-f]{32}")


@dataclass
class JobRecord:
    """A job as its file has it.

    Attributes:
        id: of the job, and name of its folder.
        owner: see `Caller.owner`.
        caller: its name.
        caches: whether the caller's translations may be kept in the cache.
        file_name: of the result.
        options: of the request.
        state: see `Job`.
        characters: of the document.
        size_bytes: of the document.
        created_s: since 1970.
        expires_s: since 1970.
        done_characters: that are translated and written.
        done_paragraphs: likewise.
        partial_bytes: length of the translation's file then.
        error: code and message.
        is_limited: whether the caller has limits.
    """

    id: str
    owner: str
    caller: str
    caches: bool
    file_name: str
    options: dict[str, Any]
    state: State
    characters: int
    size_bytes: int
    created_s: float
    expires_s: float
    done_characters: int = 0
    done_paragraphs: int = 0
    partial_bytes: int = 0
    error: tuple[str, str] | None = field(default=None)
    is_limited: bool = False

    @property
    def done(self) -> float:
        """Part that is translated, from 0 to 1."""
        return self.done_characters / self.characters if self.characters else 0.0

    @property
    def kept_bytes(self) -> int:
        """About what its files take, now or when it is done."""
        return self.size_bytes + max(self.size_bytes, self.partial_bytes)


@dataclass(frozen=True)
class TextFacts:
    """What there is to know of a text file.

    Attributes:
        characters: a byte order mark not counted.
        sample: its beginning.
    """

    characters: int
    sample: str


def inspect_text(path: Path) -> TextFacts:
    """Read a text file through.

    Raises:
        InvalidInput: it is not UTF-8.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    characters, sample, read_bytes = 0, "", 0
    with path.open("rb") as file:
        while True:
            chunk = file.read(_CHUNK_BYTES)
            held_bytes = len(decoder.getstate()[0])
            try:
                text = decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                at = read_bytes - held_bytes + error.start
                raise InvalidInput(
                    f"the document is not valid UTF-8 at byte {at}: convert it, for example with "
                    "iconv"
                ) from None
            if not read_bytes:
                text = text.removeprefix("\ufeff")
            read_bytes += len(chunk)
            characters += len(text)
            sample += text[: max(0, _SAMPLE_CHARACTERS - len(sample))]
            if not chunk:
                return TextFacts(characters, sample)


class FolderInUse(Exception):
    """Another process has the folder of documents."""


class JobFiles:
    """Reads and writes the files of jobs; nobody else can read them."""

    def __init__(self, folder: Path) -> None:
        """Keep the folder."""
        self._folder = folder
        self._lock: int | None = None

    def open(self) -> list[JobRecord]:
        """Make the folder, lock it, remove uploads that are not whole, and read the jobs.

        The folder may have been somebody's before: what jobs have not made stays as it is.

        Raises:
            FolderInUse: another process has it.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = self._folder.with_suffix(".lock")
        self._lock = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise FolderInUse(str(self._folder)) from None
        found = []
        for folder in self._folder.iterdir():
            if _ID.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink():
                try:
                    found.append(_read(folder))
                except (OSError, ValueError) as error:
                    _LOG.warning("document %s is left out: %s", folder.name, type(error).__name__)
        return [record for record in found if record is not None]

    def close(self) -> None:
        """Let another process have the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def begin(self, job_id: str) -> Path:
        """Make the folder of a job.

        Returns:
            Where its document is to be written.
        """
        (self._folder / job_id).mkdir(mode=0o700)
        return self.source(job_id)

    def source(self, job_id: str) -> Path:
        """The document."""
        return self._folder / job_id / _SOURCE

    def partial(self, job_id: str) -> Path:
        """The translation as far as it is."""
        return self._folder / job_id / _PARTIAL

    def result(self, job_id: str) -> Path:
        """The translation."""
        return self._folder / job_id / _RESULT

    def write(self, record: JobRecord) -> None:
        """Keep how far a job is."""
        path = self._folder / record.id / _RECORD
        beside = path.with_name(_NEW_RECORD)
        beside.write_bytes(msgspec.json.encode(record))
        os.replace(beside, path)

    def append(self, record: JobRecord, text: str, paragraphs: int, characters: int) -> None:
        """Write a further part of a translation.

        Args:
            record: of the job; it is brought up to date.
            text: the part.
            paragraphs: of the document that it translates.
            characters: of these.
        """
        with self.partial(record.id).open("r+b" if record.partial_bytes else "wb") as file:
            # What an interrupted write has left behind is written over.
            file.seek(record.partial_bytes)
            file.truncate()
            file.write(text.encode("utf-8"))
            record.partial_bytes = file.tell()
        record.done_paragraphs += paragraphs
        record.done_characters += characters
        self.write(record)

    def finish(self, record: JobRecord) -> None:
        """Let the translation be whole."""
        if not record.partial_bytes:
            self.partial(record.id).write_bytes(b"")
        os.replace(self.partial(record.id), self.result(record.id))

    def remove(self, job_id: str) -> None:
        """Remove all files of a job."""
        shutil.rmtree(self._folder / job_id, ignore_errors=True)


def _read(folder: Path) -> JobRecord | None:
    """The record of a job; None: its upload was not complete, and its folder is removed.

    Raises:
        OSError: it cannot be read.
        ValueError: it is none, or another job's.
    """
    path = folder / _RECORD
    if not path.exists():
        if not {one.name for one in folder.iterdir()} <= {_SOURCE, _PARTIAL, _NEW_RECORD}:
            raise ValueError
        shutil.rmtree(folder)
        return None
    record = msgspec.json.decode(path.read_bytes(), type=JobRecord)
    if record.id != folder.name:
        raise ValueError
    return record

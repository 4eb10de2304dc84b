"""The folder of documents: a subfolder for each, with the document, translation and record."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from dragoman_gateway.reader.documents import DocumentFormat

State = Literal["queued", "translating", "done", "failed", "cancelled"]
_LOG = logging.getLogger(__name__)
_SOURCE, _PARTIAL, _JOINED, _RESULT, _RECORD = "source", "partial", "joined", "result", "job.json"
_NEW_RECORD = "job.new"
_ID = re.compile("[0-9a-f]{32}")


@dataclass
class JobRecord:
    """The record of a job, as stored in its file.

    Attributes:
        id: id of the job, and name of its folder.
        owner: see `Caller.owner`.
        caller: name of the caller.
        caches: whether the caller's translations may be stored in the cache.
        file_name: name of the document.
        options: options of the request.
        state: see `Job`.
        characters: number of characters of the document.
        size_bytes: size of the document.
        created_s: time of creation, in seconds since 1970.
        expires_s: time of removal, in seconds since 1970.
        done_characters: number of characters that are translated and written.
        done_portions: number of portions that are translated and written.
        partial_bytes: size of the translation's file after these portions.
        error: code and message.
        is_limited: whether the caller has limits.
        form: format of the document.
        unclean_ends: how often the gateway was killed or crashed while it translated the document.
        left: number of texts so far that were left as they are, by their reason.
        reading: the fields of `Reading` that are not options.
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
    done_portions: int = 0
    partial_bytes: int = 0
    error: tuple[str, str] | None = field(default=None)
    is_limited: bool = False
    form: DocumentFormat = "text"
    unclean_ends: int = 0
    left: dict[str, int] = field(default_factory=dict)
    reading: dict[str, Any] = field(default_factory=dict)

    @property
    def done(self) -> float:
        """The translated share, from 0 to 1."""
        return self.done_characters / self.characters if self.characters else 0.0

    @property
    def kept_bytes(self) -> int:
        """Approximate size of its files, now or when it is done."""
        return self.size_bytes + max(self.size_bytes, self.partial_bytes)


class FolderInUse(Exception):
    """Another process uses the folder of documents."""


class JobFiles:
    """Reads and writes the files of jobs; other users cannot read them."""

    def __init__(self, folder: Path) -> None:
        """Store the path of the folder."""
        self._folder = folder
        self._lock: int | None = None
        self._writing = threading.Lock()

    def open(self) -> list[JobRecord]:
        """Create and lock the folder, remove incomplete uploads, and read the jobs.

        The folder may contain files from elsewhere; they are not touched.

        Raises:
            FolderInUse: another process uses the folder.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = self._folder.with_suffix(".lock")
        self._lock = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise FolderInUse(str(self._folder)) from None
        records = []
        for folder in self._folder.iterdir():
            if _ID.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink():
                try:
                    records.append(_read(folder))
                except (OSError, ValueError) as error:
                    _LOG.warning("document %s is skipped: %s", folder.name, type(error).__name__)
        return [record for record in records if record is not None]

    def close(self) -> None:
        """Unlock the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def begin(self, job_id: str) -> Path:
        """Create the folder of a job.

        Returns:
            The path for its document.
        """
        (self._folder / job_id).mkdir(mode=0o700)
        return self.source(job_id)

    def source(self, job_id: str) -> Path:
        """Returns the path of the document."""
        return self._folder / job_id / _SOURCE

    def partial(self, job_id: str) -> Path:
        """Returns the path of the partial translation."""
        return self._folder / job_id / _PARTIAL

    def joined(self, job_id: str) -> Path:
        """Returns the path of a package that is put together from the partial translation."""
        return self._folder / job_id / _JOINED

    def result(self, job_id: str) -> Path:
        """Returns the path of the complete translation."""
        return self._folder / job_id / _RESULT

    def write(self, record: JobRecord) -> None:
        """Save the record of a job."""
        path = self._folder / record.id / _RECORD
        beside = path.with_name(_NEW_RECORD)
        # The thread of a cancelled task may still be writing.
        with self._writing:
            beside.write_bytes(msgspec.json.encode(record))
            os.replace(beside, path)

    def append(
        self, record: JobRecord, written: bytes, characters: int, left: Mapping[str, int]
    ) -> None:
        """Append a portion to a translation.

        Args:
            record: record of the job; it is updated.
            written: the translated portion.
            characters: number of characters of the source portion.
            left: number of its texts that were left as they are, by their reason.
        """
        with self.partial(record.id).open("r+b" if record.partial_bytes else "wb") as file:
            # Overwrites the rest of an interrupted write.
            file.seek(record.partial_bytes)
            file.truncate()
            file.write(written)
            record.partial_bytes = file.tell()
        record.done_portions += 1
        record.done_characters += characters
        record.left = dict(Counter(record.left) + Counter(left))
        self.write(record)

    def finish(self, record: JobRecord) -> None:
        """Mark the translation as complete."""
        partial, joined = self.partial(record.id), self.joined(record.id)
        if not record.partial_bytes:
            partial.write_bytes(b"")
        if joined.exists():
            os.replace(joined, partial)
        os.replace(partial, self.result(record.id))

    def remove_texts(self, job_id: str) -> None:
        """Remove a document and its partial translation, but not the record."""
        self.source(job_id).unlink(missing_ok=True)
        self.partial(job_id).unlink(missing_ok=True)
        self.joined(job_id).unlink(missing_ok=True)

    def remove(self, job_id: str) -> None:
        """Remove all files of a job."""
        with self._writing:
            shutil.rmtree(self._folder / job_id, ignore_errors=True)


def _read(folder: Path) -> JobRecord | None:
    """Read the record of a job; None: its upload was incomplete, and its folder is removed."""
    path = folder / _RECORD
    if not path.exists():
        if not {file.name for file in folder.iterdir()} <= {_SOURCE, _PARTIAL, _NEW_RECORD}:
            raise ValueError
        shutil.rmtree(folder)
        return None
    record = msgspec.json.decode(path.read_bytes(), type=JobRecord)
    if record.id != folder.name:
        raise ValueError
    return record

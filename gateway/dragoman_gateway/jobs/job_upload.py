"""A document that is being received."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import BinaryIO

from dragoman_gateway.jobs.job_files import JobFiles


class JobUpload:
    """Writes a document into the folder of a job, which is removed unless it is kept.

    The methods are those that a parser of forms calls, outside of the event loop: writing, and
    seeking the beginning when the document is complete.

    Attributes:
        job_id: id of the job to come.
        size_bytes: bytes written so far.
    """

    def __init__(self, files: JobFiles) -> None:
        """Start without a folder; the first write makes it."""
        self.job_id = secrets.token_hex(16)
        self.size_bytes = 0
        self._files = files
        self._file: BinaryIO | None = None
        self._is_kept = False

    @property
    def path(self) -> Path:
        """Path of the document."""
        return self._files.source(self.job_id)

    def write(self, content: bytes) -> int:
        """Append bytes to the document."""
        if self._file is None:
            self._file = self._files.begin(self.job_id).open("wb")
        self.size_bytes += len(content)
        return self._file.write(content)

    def seek(self, _offset: int) -> None:
        """Complete the document, whose path is `JobFiles.source`."""
        self.write(b"")
        assert self._file is not None
        self._file.close()

    def keep(self) -> None:
        """Leave the folder to the job."""
        self._is_kept = True

    def close(self) -> None:
        """Remove the folder unless it is kept."""
        if self._file is not None:
            self._file.close()
            if not self._is_kept:
                self._files.remove(self.job_id)

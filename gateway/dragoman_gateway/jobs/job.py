"""Jobs: documents that are translated in the background."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from dragoman_gateway.core.errors import GatewayError, Internal
from dragoman_gateway.jobs.job_files import JobRecord, State

_FINAL = ("done", "failed", "cancelled")


@dataclass(frozen=True)
class Job:
    """A job as callers see it.

    Attributes:
        id: 32 hexadecimal digits, in lower case.
        file_name: name of the document, as given by the caller, without folders.
        state: state of the job.
        characters: number of characters of the document's text; None: not read yet.
        done: translated share of the text, from 0 to 1.
        created: time of creation, UTC.
        expires: time when its files are removed, UTC.
        seconds_remaining: estimated remaining time; None: unknown.
        error: why the job failed; None if it did not.
        left: number of texts so far that were left as they are, by their reason: a key of
            `dragoman_client.files.file_report.REASONS`.
    """

    id: str
    file_name: str
    state: State
    characters: int | None
    done: float
    created: datetime
    expires: datetime
    seconds_remaining: float | None = None
    error: GatewayError | None = None
    left: Mapping[str, int] = field(default_factory=dict)


class RunningJob:
    """A job in memory.

    Attributes:
        record: the record in its file.
        ended: set when the job is done, failed or cancelled.
        task: the task that translates it; None: the job is queued or has ended.
    """

    def __init__(self, record: JobRecord) -> None:
        """Take a record; a job that has not ended is queued again."""
        self.record = record
        self.ended = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self._begun_s: float | None = None
        self._begun_at = 0
        if self.has_ended:
            self.ended.set()
        else:
            record.state = "queued"

    def begin(self) -> None:
        """Record the start of the translation, for the estimate of the remaining time."""
        self._begun_s, self._begun_at = time.monotonic(), self.record.done_characters

    @property
    def has_ended(self) -> bool:
        """Whether it is done, failed or cancelled."""
        return self.record.state in _FINAL

    @property
    def is_expired(self) -> bool:
        """Whether its files must be removed."""
        return time.time() >= self.record.expires_s

    @property
    def job(self) -> Job:
        """The job as callers see it."""
        record = self.record
        return Job(
            id=record.id,
            file_name=record.file_name,
            state=record.state,
            characters=record.characters,
            done=1.0 if record.state == "done" else record.done,
            created=datetime.fromtimestamp(record.created_s, UTC),
            expires=datetime.fromtimestamp(record.expires_s, UTC),
            seconds_remaining=self._seconds_remaining,
            error=_error_of(*record.error) if record.error else None,
            left=record.left,
        )

    @property
    def _seconds_remaining(self) -> float | None:
        record = self.record
        done = record.done_characters - self._begun_at
        if record.state != "translating" or self._begun_s is None or done <= 0:
            return 0.0 if record.state == "done" else None
        took_s = time.monotonic() - self._begun_s
        return took_s / done * (record.characters - record.done_characters)


def _error_of(code: str, message: str) -> GatewayError:
    kinds = {kind.code: kind for kind in GatewayError.__subclasses__()}
    return kinds.get(code, Internal)(message)

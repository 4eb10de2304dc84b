"""A document that is translated in the background, as callers see it and as it is in memory."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from dragoman_gateway.core.errors import GatewayError, Internal
from dragoman_gateway.core.job_files import JobRecord, State

_FINAL = ("done", "failed", "cancelled")


@dataclass(frozen=True)
class Job:
    """A document and how far its translation is.

    Attributes:
        id: 32 hexadecimal digits, in lower case.
        file_name: of the result, as given by the caller, without folders.
        state: how far it is.
        characters: of the document's text; None: not read yet.
        done: part of the text that is translated, from 0 to 1.
        created: UTC.
        expires: when its files are removed, UTC.
        seconds_remaining: estimated; None: unknown.
        error: why it failed; None if it did not.
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


class RunningJob:
    """A job in memory.

    Attributes:
        record: what its file has.
        ended: set when the job is done, failed or cancelled.
        task: translates it; None: it waits, or has ended.
    """

    def __init__(self, record: JobRecord) -> None:
        """Begin; a job that has not ended is queued again."""
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
        """Note that its translation begins now, for the estimate of the time it takes."""
        self._begun_s, self._begun_at = time.monotonic(), self.record.done_characters

    @property
    def has_ended(self) -> bool:
        """Whether it is done, failed or cancelled."""
        return self.record.state in _FINAL

    @property
    def is_expired(self) -> bool:
        """Whether its files are to be removed."""
        return time.time() >= self.record.expires_s

    @property
    def job(self) -> Job:
        """As callers see it."""
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

"""Documents that are translated in the background."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import GatewayError

State = Literal["queued", "translating", "done", "failed", "cancelled"]


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


class Jobs:
    """Translates documents in the background, and keeps their results for a while.

    Files are in the gateway's folder; a restart goes on with what was not done. All methods raise
    `NotFound` for a job that does not exist, has expired, or belongs to another caller.
    """

    formats: tuple[str, ...] = (".txt",)
    """Endings of the files that can be translated."""

    async def submit(
        self,
        caller: Caller,
        file_name: str,
        content: AsyncIterator[bytes],
        options: Mapping[str, Any],
    ) -> Job:
        """Store a document, and translate it in the background.

        Args:
            caller: who asks; its characters are counted once the document is read.
            file_name: its ending is its format.
            content: the document.
            options: of the option table, and `glossary_ids`.

        Raises:
            WrongMediaType: a format that is not translated.
            TooLarge: a document above the bound of a file.
            InvalidInput: text that is not UTF-8, or an option that does not fit.
            TooManyRequests: the store is full.
        """
        raise NotImplementedError

    async def get(self, caller: Caller, job_id: str, wait_s: float = 0.0) -> Job:
        """A job; waits up to `wait_s` seconds until it is done."""
        raise NotImplementedError

    async def all(self, caller: Caller) -> list[Job]:
        """The caller's jobs, newest first."""
        raise NotImplementedError

    async def result(self, caller: Caller, job_id: str) -> Path:
        """The translated file.

        Raises:
            Unavailable: it is not done yet.
        """
        raise NotImplementedError

    async def delete(self, caller: Caller, job_id: str) -> None:
        """Cancel a job, and remove its files."""
        raise NotImplementedError

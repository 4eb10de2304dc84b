"""The jobs of a folder: which one is translated next, and when one is removed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

from dragoman_gateway.access.access import Access
from dragoman_gateway.core.caller import ANONYMOUS, NO_LIMITS, Caller, Limits
from dragoman_gateway.core.errors import (
    DiskFull,
    GatewayError,
    Internal,
    is_disk_full,
    log_fault,
)
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.jobs.job import RunningJob
from dragoman_gateway.jobs.job_files import JobFiles, JobRecord
from dragoman_gateway.jobs.job_translation import translate_document
from dragoman_gateway.texts.readers import Readers
from dragoman_gateway.texts.translations import Translations

_LOG = logging.getLogger(__name__)
_SWEEP_S = 10.0
_MOST_UNCLEAN_ENDS = 2


class JobQueue:
    """Translates the jobs of a folder, some at the same time, and removes expired ones.

    Attributes:
        files: files of the jobs.
        jobs: all jobs by id.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        access: Access,
        translations: Translations,
        readers: Readers,
    ) -> None:
        """Prepare the folder; `open` starts the work."""
        self._settings, self._access = settings, access
        self._translations, self._readers = translations, readers
        self._share = max(1, int(settings.document_workers * settings.client_share))
        self._temporary: str | None = None
        folder = settings.folder
        if folder is None:
            self._temporary = tempfile.mkdtemp(prefix="dragoman-gateway-")
            folder = Path(self._temporary)
        self.files = JobFiles(folder / "documents")
        self.jobs: dict[str, RunningJob] = {}
        self._translating: set[RunningJob] = set()
        self._sweeping: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Read the jobs in the folder, and resume the unfinished ones.

        Raises:
            FolderInUse: another gateway uses the folder.
        """
        for record in await asyncio.to_thread(self.files.open):
            if record.state == "translating":
                await self._count_unclean_end(record)
            self.jobs[record.id] = RunningJob(record)
        self._sweeping = asyncio.create_task(self._sweep())
        self._start()

    async def close(self) -> None:
        """Stop; unfinished jobs are resumed when the gateway starts again."""
        every = [self._sweeping, *(running.task for running in self._translating)]
        tasks = [task for task in every if task is not None]
        self._sweeping = None  # no job starts any more
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for running in self.jobs.values():
            if running.record.state == "translating":
                running.record.state = "queued"
                with contextlib.suppress(OSError):
                    await asyncio.to_thread(self.files.write, running.record)
        self.files.close()
        if self._temporary is not None:
            await asyncio.to_thread(shutil.rmtree, self._temporary, ignore_errors=True)

    def add(self, record: JobRecord) -> RunningJob:
        """Add a job whose record is written."""
        running = self.jobs[record.id] = RunningJob(record)
        self._start()
        return running

    async def remove(self, job_id: str) -> None:
        """Cancel a job, and remove its files."""
        if (running := self.jobs.pop(job_id, None)) is None:
            return
        if running.task is not None:
            running.task.cancel()
            await asyncio.gather(running.task, return_exceptions=True)
        running.record.state = "cancelled"
        running.ended.set()
        await asyncio.to_thread(self.files.remove, job_id)

    def _start(self) -> None:
        """Start the next jobs, up to the maximum number."""
        most = self._settings.document_workers if self._sweeping is not None else 0
        while len(self._translating) < most and (running := self._next()) is not None:
            running.record.state = "translating"
            running.task = asyncio.create_task(self._translate(running))
            self._translating.add(running)
            running.task.add_done_callback(partial(self._end, running))

    def _end(self, running: RunningJob, _task: asyncio.Task[None]) -> None:
        running.task = None
        self._translating.discard(running)
        self._start()

    def _next(self) -> RunningJob | None:
        """The next job: the oldest one of the caller with the fewest running translations.

        A caller has at most its share of all that are translated at the same time.
        """
        busy = Counter(job.record.caller for job in self._translating)
        waiting = [
            job
            for job in self.jobs.values()
            if job.record.state == "queued"
            and (busy[job.record.caller] < self._share or job.record.caller == ANONYMOUS.name)
        ]
        return min(
            waiting,
            key=lambda job: (busy[job.record.caller], job.record.created_s),
            default=None,
        )

    async def _translate(self, running: RunningJob) -> None:
        record = running.record
        running.begin()
        try:
            await self._translate_and_write(record)
        except Exception as error:  # such as a full disk; the state in memory is still right
            log_fault(_LOG, "the state of a document was not written", error)
        finally:
            running.ended.set()

    async def _translate_and_write(self, record: JobRecord) -> None:
        try:
            await asyncio.to_thread(self.files.write, record)
            await translate_document(record, self.files, self._translations, self._readers)
            await asyncio.to_thread(self.files.finish, record)
            record.state = "done"
            record.expires_s = time.time() + self._settings.document_expiry_s
        except GatewayError as error:
            await self._fail(record, error)
        except Exception as error:
            log_fault(_LOG, "a document failed", error)
            message = "the document could not be translated: see the gateway's log"
            await self._fail(record, DiskFull() if is_disk_full(error) else Internal(message))
        await asyncio.to_thread(self.files.write, record)

    async def _count_unclean_end(self, record: JobRecord) -> None:
        """Count an end of the gateway during a translation; it fails if it may be the cause."""
        record.unclean_ends += 1
        if record.unclean_ends >= _MOST_UNCLEAN_ENDS:
            message = (
                f"the gateway ended {record.unclean_ends} times while it translated this document, "
                "and does not try again: check the document, or send it in parts"
            )
            await self._fail(record, Internal(message))
        with contextlib.suppress(OSError):
            await asyncio.to_thread(self.files.write, record)

    async def _fail(self, record: JobRecord, error: GatewayError) -> None:
        """Set the end of a document that was not translated, and refund its characters."""
        record.state, record.error = "failed", (error.code, str(error))
        # On a full disk, the record needs the space.
        await asyncio.to_thread(self.files.remove_texts, record.id)
        record.expires_s = time.time() + self._settings.document_expiry_s
        limits = Limits(characters_per_month=0) if record.is_limited else NO_LIMITS
        caller = Caller(record.caller, record.owner or None, limits)
        await self._access.refund(caller, max(1, record.characters), record.created_s)

    async def _sweep(self) -> None:
        """Remove expired documents."""
        while True:
            await asyncio.sleep(min(_SWEEP_S, self._settings.document_expiry_s / 4))
            for job_id in [job.record.id for job in self.jobs.values() if job.is_expired]:
                try:
                    await self.remove(job_id)
                except Exception as error:
                    log_fault(_LOG, "a document was not removed", error)

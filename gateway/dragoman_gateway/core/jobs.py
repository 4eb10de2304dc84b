"""Documents that are translated in the background."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dragoman_client import Document
from dragoman_client.file_formats import DOCUMENT_ENDINGS
from dragoman_options.table import AUTO, check, requested_outputs

from dragoman_gateway.core.access import Access
from dragoman_gateway.core.caller import ANONYMOUS, NO_LIMITS, Caller, Limits
from dragoman_gateway.core.errors import (
    GatewayError,
    Internal,
    InvalidInput,
    NotFound,
    TooLarge,
    TooManyRequests,
    Unavailable,
    UnknownFormat,
    Unsupported,
    log_fault,
)
from dragoman_gateway.core.job import Job, RunningJob
from dragoman_gateway.core.job_files import FolderInUse, JobFiles, JobRecord
from dragoman_gateway.core.job_translation import translate_document
from dragoman_gateway.core.job_upload import JobUpload
from dragoman_gateway.core.marked_texts import check_marked_options
from dragoman_gateway.core.readers import Readers
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.core.translations import Translations
from dragoman_gateway.reader.documents import DocumentFacts

_LOG = logging.getLogger(__name__)
_LONGEST_WORK_S = 24 * 3600.0
"""Time after which a document is removed even if it is not translated."""
_LONGEST_WAIT_S = 60.0
_MOST_NAME = 200
_SWEEP_S = 10.0
_TAKEN = (
    "another gateway translates the documents in this folder: use that gateway, or start this one "
    "with another --folder"
)
_MOST_UNCLEAN_ENDS = 2
_FULL = "the gateway has reached its limit of stored documents: try later"


class Jobs:
    """Translates documents in the background, and stores the results for some time.

    The files are in the gateway's folder; unfinished documents are resumed after a restart. All
    methods raise `NotFound` for a job that does not exist, has expired, or belongs to another
    caller.
    """

    formats: tuple[str, ...] = DOCUMENT_ENDINGS
    """Extensions of the files that can be translated."""

    def __init__(
        self,
        settings: GatewaySettings,
        access: Access,
        translations: Translations,
        readers: Readers,
    ) -> None:
        """Store the parts; `open` starts the work."""
        self._settings, self._access, self._translations = settings, access, translations
        self._readers = readers
        self._share = max(1, int(settings.document_workers * settings.client_share))
        self._jobs: dict[str, RunningJob] = {}
        self._changed = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []
        self._temporary: str | None = None
        self._submitted: dict[JobUpload, str] = {}
        """Documents that are inspected before they become jobs, with their callers."""
        self._is_taken = False
        """Whether another gateway uses the folder."""

    async def open(self) -> None:
        """Read the documents in the folder, and resume the unfinished ones."""
        folder = self._settings.folder
        if folder is None:
            self._temporary = tempfile.mkdtemp(prefix="dragoman-gateway-")
            folder = Path(self._temporary)
        self._files = JobFiles(folder / "documents")
        try:
            records = await asyncio.to_thread(self._files.open)
        except FolderInUse as error:
            _LOG.warning(
                "%s is used by another gateway: this one translates no documents; "
                "give it another --folder",
                error,
            )
            self._is_taken = True
            return
        for record in records:
            if record.state == "translating":
                await self._count_unclean_end(record)
            self._jobs[record.id] = RunningJob(record)
        workers = [self._work() for _ in range(self._settings.document_workers)]
        self._tasks = [asyncio.create_task(one) for one in (*workers, self._sweep())]

    async def close(self) -> None:
        """Stop; unfinished documents are resumed when the gateway starts again."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for running in self._jobs.values():
            if running.record.state == "translating":
                running.record.state = "queued"
                with contextlib.suppress(OSError):
                    await asyncio.to_thread(self._files.write, running.record)
        self._files.close()
        if self._temporary is not None:
            await asyncio.to_thread(shutil.rmtree, self._temporary, ignore_errors=True)

    def upload(self) -> JobUpload:
        """Begin to receive a document.

        Raises:
            Unsupported: another gateway uses the folder.
        """
        if self._is_taken:
            raise Unsupported(_TAKEN)
        return JobUpload(self._files)

    async def submit(
        self,
        caller: Caller,
        file_name: str,
        upload: JobUpload,
        options: Mapping[str, Any],
        *,
        source_field: str = "source_language",
    ) -> Job:
        """Translate a document in the background.

        Args:
            caller: the sender; its characters are counted after the document is read.
            file_name: name of the document; its extension is the format.
            upload: the document, complete; the job keeps it.
            options: options of the option table, and `glossary_ids`.
            source_field: the protocol's name of the source language, for messages.

        Raises:
            UnknownFormat: the format is not supported.
            TooLarge: the document is larger than allowed.
            InvalidInput: the document does not have its format, an option is invalid, or the
                direction is not supported.
            TooManyRequests: the limit of stored documents is reached, in total or for the caller.
        """
        name = _checked_name(file_name, self.formats)
        options = _checked_options(options)
        await self._translations.check_direction(options)
        self._check_space(caller, upload.size_bytes)
        self._submitted[upload] = caller.name
        try:
            path = self._files.source(upload.job_id)
            found = await self._readers.inspect(caller.name, path, upload.size_bytes, name, options)
            options |= await self._languages_of(found, options, source_field)
            if found.form != "text":
                check_marked_options(options, f"a document in {found.form}")
            if options.get("glossary_ids"):
                await self._translations.check_glossaries(caller, options)
            # At least one character, so that empty documents count too.
            async with self._access.admitted(caller, max(1, found.characters)):
                now_s = time.time()
                record = JobRecord(
                    id=upload.job_id,
                    owner=caller.owner,
                    caller=caller.name,
                    caches=caller.caches,
                    file_name=name,
                    options=options,
                    state="queued",
                    characters=found.characters,
                    size_bytes=upload.size_bytes,
                    created_s=now_s,
                    expires_s=now_s + max(_LONGEST_WORK_S, self._settings.document_expiry_s),
                    is_limited=caller.limits != NO_LIMITS,
                    form=found.form,
                )
                await asyncio.to_thread(self._files.write, record)
                upload.keep()
        finally:
            del self._submitted[upload]
        running = self._jobs[record.id] = RunningJob(record)
        async with self._changed:
            self._changed.notify_all()
        return running.job

    async def _languages_of(
        self, found: DocumentFacts, options: Mapping[str, Any], source_field: str
    ) -> Mapping[str, str]:
        """Returns the language options that a document needs and its request does not set."""
        detects = str(options.get("source_language")).lower() == AUTO and found.sample.strip()
        # Bilingual files contain the target language.
        lacks_target = found.form != "text" and "target_language" not in options
        if not (detects or lacks_target):
            return {}
        return await self._translations.languages_of(found.sample, options, source_field)

    async def get(self, caller: Caller, job_id: str, wait_s: float = 0.0) -> Job:
        """Returns a job; waits up to `wait_s` seconds until it is done."""
        running = self._own(caller, job_id)
        if wait_s > 0 and not running.has_ended:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(wait_s, _LONGEST_WAIT_S)):
                    await running.ended.wait()
            running = self._own(caller, job_id)
        return running.job

    async def all(self, caller: Caller) -> list[Job]:
        """Returns the caller's jobs, newest first.

        Raises:
            KeyMissing: the caller has no key; it can reach a document only by its id.
        """
        caller.check_owns("lists of documents")
        own = [one for one in self._jobs.values() if one.record.owner == caller.owner]
        return [one.job for one in sorted(own, key=lambda one: -one.record.created_s)]

    async def result(self, caller: Caller, job_id: str) -> Path:
        """Returns the path of the translated file.

        Raises:
            Unavailable: the job is not done yet.
            GatewayError: the job failed.
        """
        running = self._own(caller, job_id)
        if (error := running.job.error) is not None:
            raise error
        if running.record.state != "done":
            raise Unavailable("the document is not translated yet: try again later", 1.0)
        return self._files.result(job_id)

    async def delete(self, caller: Caller, job_id: str) -> None:
        """Cancel a job, and remove its files."""
        self._own(caller, job_id)
        await self._remove(job_id)

    def _own(self, caller: Caller, job_id: str) -> RunningJob:
        running = self._jobs.get(job_id)
        if running is None or running.record.owner != caller.owner or running.is_expired:
            raise NotFound(f"there is no document {job_id[:60]!r}; documents expire after a while")
        return running

    async def _remove(self, job_id: str) -> None:
        if (running := self._jobs.pop(job_id, None)) is None:
            return
        if running.task is not None:
            running.task.cancel()
            await asyncio.gather(running.task, return_exceptions=True)
        running.record.state = "cancelled"
        running.ended.set()
        await asyncio.to_thread(self._files.remove, job_id)

    def _check_space(self, caller: Caller, size_bytes: int) -> None:
        """Refuse a document above a limit of size or number.

        Raises:
            TooLarge: the document is too large.
            TooManyRequests: the caller's documents, or all documents, are too many or too large
                together.
        """
        settings = self._settings
        if size_bytes > settings.file_bytes:
            raise TooLarge(f"the document has more than {settings.file_bytes:,} bytes")
        kept = [(one.record.caller, one.record.kept_bytes) for one in self._jobs.values()]
        # A translation is about as large as its document.
        kept += [(name, 2 * upload.size_bytes) for upload, name in self._submitted.items()]
        own = [kept_bytes for name, kept_bytes in kept if name == caller.name]
        if len(own) >= settings.document_number_per_caller:
            raise TooManyRequests(f"you have {len(own)} documents here: delete one, or try later")
        all_bytes = 2 * size_bytes + sum(kept_bytes for _, kept_bytes in kept)
        if len(kept) >= settings.document_number or all_bytes > settings.document_bytes:
            raise TooManyRequests(_FULL)
        if 2 * size_bytes + sum(own) > settings.document_bytes_per_caller:
            raise TooManyRequests(
                "your documents have reached their size limit here: delete one, or try later"
            )

    async def _work(self) -> None:
        """Translate documents one after the other."""
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self._next() is not None)
                running = self._next()
                assert running is not None
                running.record.state = "translating"
            running.task = asyncio.create_task(self._translate(running))
            try:
                await asyncio.wait([running.task])
            except asyncio.CancelledError:
                running.task.cancel()
                await asyncio.gather(running.task, return_exceptions=True)
                raise
            running.task = None

    def _next(self) -> RunningJob | None:
        """The next document: the oldest one of the caller with the fewest running translations.

        A caller has at most its share of all that are translated at the same time.
        """
        busy = [one.record.caller for one in self._jobs.values() if one.task is not None]
        above = {name for name in busy if busy.count(name) >= self._share} - {ANONYMOUS.name}
        waiting = [
            one
            for one in self._jobs.values()
            if one.record.state == "queued" and one.record.caller not in above
        ]
        return min(
            waiting,
            key=lambda one: (busy.count(one.record.caller), one.record.created_s),
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
            await asyncio.to_thread(self._files.write, record)
            await translate_document(record, self._files, self._translations, self._readers)
            await asyncio.to_thread(self._files.finish, record)
            record.state = "done"
        except GatewayError as error:
            record.state, record.error = "failed", (error.code, str(error))
        except Exception as error:
            log_fault(_LOG, "a document failed", error)
            message = "the document could not be translated: see the gateway's log"
            record.state, record.error = "failed", (Internal.code, message)
        record.expires_s = time.time() + self._settings.document_expiry_s
        if record.state == "failed":
            await self._refund(record)
        await asyncio.to_thread(self._files.write, record)

    async def _count_unclean_end(self, record: JobRecord) -> None:
        """Count an end of the gateway during a translation; it fails if it may be the cause."""
        record.unclean_ends += 1
        if record.unclean_ends >= _MOST_UNCLEAN_ENDS:
            message = (
                f"the gateway ended {record.unclean_ends} times while it translated this document, "
                "and does not try again: check the document, or send it in parts"
            )
            record.state, record.error = "failed", (Internal.code, message)
            record.expires_s = time.time() + self._settings.document_expiry_s
            await self._refund(record)
        with contextlib.suppress(OSError):
            await asyncio.to_thread(self._files.write, record)

    async def _refund(self, record: JobRecord) -> None:
        """Refund the characters of a document that was not translated."""
        limits = Limits(characters_per_month=0) if record.is_limited else NO_LIMITS
        caller = Caller(record.caller, record.owner or None, limits)
        await self._access.refund(caller, max(1, record.characters), record.created_s)

    async def _sweep(self) -> None:
        """Remove expired documents."""
        while True:
            await asyncio.sleep(min(_SWEEP_S, self._settings.document_expiry_s / 4))
            for job_id in [one.record.id for one in self._jobs.values() if one.is_expired]:
                try:
                    await self._remove(job_id)
                except Exception as error:
                    log_fault(_LOG, "a document was not removed", error)


def _checked_name(file_name: str, formats: tuple[str, ...]) -> str:
    """Returns the name without folders and control characters.

    Raises:
        UnknownFormat: its extension is not a supported format.
    """
    name = file_name.replace("\\", "/").rpartition("/")[2]
    name = "".join(filter(str.isprintable, name)).strip()
    stem, ending = name[: -len(Path(name).suffix) or None], Path(name).suffix
    if ending.lower() not in formats:
        raise UnknownFormat(
            f"the file extension {ending[:20]!r} is not supported: give {', '.join(formats)}"
        )
    return stem[:_MOST_NAME] + ending


def _checked_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the checked options of a document, with sentence splitting.

    Raises:
        InvalidInput: an option is invalid.
    """
    options = dict(given)
    ids = options.pop("glossary_ids", None)
    try:
        checked = check(Document().with_sentences(options))  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise InvalidInput(str(error)) from error
    outputs = set(requested_outputs(checked)) - {"detected_language", "detected_probability"}
    if outputs:
        raise InvalidInput(
            f"a document has no {', '.join(sorted(outputs))}: leave such options out"
        )
    return checked | ({"glossary_ids": list(ids)} if ids else {})

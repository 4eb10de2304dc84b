"""Documents that are translated in the background."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman_client import Document
from dragoman_client.files.file_formats import (
    DOCUMENT_ENDINGS,
    TABLE_ENDINGS,
    RefusedFormat,
    format_of,
)
from dragoman_options.table import AUTO, DETECTED_OUTPUTS, check, requested_outputs

from dragoman_gateway.access.access import Access
from dragoman_gateway.core.caller import NO_LIMITS, Caller
from dragoman_gateway.core.errors import (
    InvalidInput,
    NotFound,
    TooLarge,
    TooManyRequests,
    Unavailable,
    UnknownFormat,
    Unsupported,
)
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.jobs.job import Job, RunningJob
from dragoman_gateway.jobs.job_files import FolderInUse, JobRecord
from dragoman_gateway.jobs.job_queue import JobQueue
from dragoman_gateway.jobs.job_upload import JobUpload
from dragoman_gateway.reader.documents import DocumentFacts
from dragoman_gateway.texts.marked_texts import check_marked_options
from dragoman_gateway.texts.readers import Readers
from dragoman_gateway.texts.translations import Translations

_LOG = logging.getLogger(__name__)
_LONGEST_WORK_S = 24 * 3600.0
"""Time after which a document is removed even if it is not translated."""
_LONGEST_WAIT_S = 60.0
_MOST_NAME = 200
_TAKEN = (
    "another gateway translates the documents in this folder: use that gateway, or start this one "
    "with another --folder"
)
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
        self._queue = JobQueue(settings, access, translations, readers)
        self._submitted: dict[JobUpload, str] = {}
        """Documents that are inspected before they become jobs, with their callers."""
        self._is_taken = False
        """Whether another gateway uses the folder."""

    async def open(self) -> None:
        """Read the documents in the folder, and resume the unfinished ones."""
        try:
            await self._queue.open()
        except FolderInUse as error:
            _LOG.warning(
                "%s is used by another gateway: this one translates no documents; "
                "give it another --folder",
                error,
            )
            self._is_taken = True

    async def close(self) -> None:
        """Stop; unfinished documents are resumed when the gateway starts again."""
        await self._queue.close()

    def upload(self) -> JobUpload:
        """Begin to receive a document.

        Raises:
            Unsupported: another gateway uses the folder.
        """
        if self._is_taken:
            raise Unsupported(_TAKEN)
        return JobUpload(self._queue.files)

    async def submit(
        self,
        caller: Caller,
        file_name: str,
        upload: JobUpload,
        options: Mapping[str, Any],
        *,
        source_field: str = "source_language",
        columns: Sequence[str] = (),
        titles: bool = False,
    ) -> Job:
        """Translate a document in the background.

        Args:
            caller: the sender; its characters are counted after the document is read.
            file_name: name of the document; its extension is the format.
            upload: the document, complete; the job keeps it.
            options: options of the option table, `glossary_ids` and `memory_id`.
            source_field: the protocol's name of the source language, for messages.
            columns: names of the columns of a table to translate; only a table has some.
            titles: whether to translate the title among its properties.

        Raises:
            UnknownFormat: the format is not supported.
            TooLarge: the document is larger than allowed.
            InvalidInput: the document does not have its format, an option is invalid, or the
                direction is not supported.
            TooManyRequests: the limit of stored documents is reached, in total or for the caller.
        """
        name = _checked_name(file_name, TABLE_ENDINGS if columns else self.formats)
        reading = {"columns": [*columns], "titles": titles}
        options = _checked_options(options)
        await self._translations.check_direction(options)
        self._check_space(caller, upload.size_bytes)
        self._submitted[upload] = caller.name
        try:
            path = self._queue.files.source(upload.job_id)
            facts = await self._readers.inspect(
                caller.name, path, upload.size_bytes, name, options | reading
            )
            options |= await self._languages_of(facts, options, source_field)
            if facts.form != "text":
                check_marked_options(options, f"a document in {facts.form}")
            if options.get("glossary_ids"):
                await self._translations.check_glossaries(caller, options)
            await self._translations.stored(caller, (), (), options)
            # At least one character, so that empty documents count too.
            async with self._access.admitted(caller, max(1, facts.characters)):
                now_s = time.time()
                record = JobRecord(
                    id=upload.job_id,
                    owner=caller.owner,
                    caller=caller.name,
                    caches=caller.caches,
                    file_name=name,
                    options=options,
                    state="queued",
                    characters=facts.characters,
                    size_bytes=upload.size_bytes,
                    created_s=now_s,
                    expires_s=now_s + max(_LONGEST_WORK_S, self._settings.document_expiry_s),
                    is_limited=caller.limits != NO_LIMITS,
                    form=facts.form,
                    reading=reading,
                )
                await asyncio.to_thread(self._queue.files.write, record)
            upload.keep()
            return self._queue.add(record).job
        finally:
            del self._submitted[upload]

    async def _languages_of(
        self, facts: DocumentFacts, options: Mapping[str, Any], source_field: str
    ) -> Mapping[str, str]:
        """Returns the language options that a document needs and its request does not set."""
        detects = str(options.get("source_language")).lower() == AUTO and facts.sample.strip()
        # Bilingual files contain the target language.
        lacks_target = facts.form != "text" and "target_language" not in options
        if not (detects or lacks_target):
            return {}
        return await self._translations.languages_of(facts.sample, options, source_field)

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
        own = [
            running for running in self._queue.jobs.values() if running.record.owner == caller.owner
        ]
        return [
            running.job for running in sorted(own, key=lambda running: -running.record.created_s)
        ]

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
        return self._queue.files.result(job_id)

    async def delete(self, caller: Caller, job_id: str) -> None:
        """Cancel a job, and remove its files."""
        self._own(caller, job_id)
        await self._queue.remove(job_id)

    def _own(self, caller: Caller, job_id: str) -> RunningJob:
        running = self._queue.jobs.get(job_id)
        if running is None or running.record.owner != caller.owner or running.is_expired:
            raise NotFound(f"there is no document {job_id[:60]!r}; documents expire after a while")
        return running

    def _check_space(self, caller: Caller, size_bytes: int) -> None:
        """Refuse a document above a limit of size or number."""
        settings = self._settings
        if size_bytes > settings.file_bytes:
            raise TooLarge(f"the document has more than {settings.file_bytes:,} bytes")
        kept = [(job.record.caller, job.record.kept_bytes) for job in self._queue.jobs.values()]
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


def _checked_name(file_name: str, formats: tuple[str, ...]) -> str:
    """Returns the name without folders and control characters."""
    name = file_name.replace("\\", "/").rpartition("/")[2]
    name = "".join(filter(str.isprintable, name)).strip()
    stem, ending = name[: -len(Path(name).suffix) or None], Path(name).suffix
    if ending.lower() not in formats:
        known = format_of(name)
        if ending.lower() in TABLE_ENDINGS:
            raise UnknownFormat("a table needs the field columns: the names of those to translate")
        if isinstance(known, RefusedFormat) and known.instead:
            raise UnknownFormat(f"{known.title} is not translated: {known.instead}")
        raise UnknownFormat(
            f"the file extension {ending[:20]!r} is not supported: give {', '.join(formats)}"
        )
    return stem[:_MOST_NAME] + ending


def _checked_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the checked options of a document, with sentence splitting."""
    options = dict(given)
    ids, memory_id = options.pop("glossary_ids", None), options.pop("memory_id", None)
    try:
        checked = check(Document().with_sentences(options))  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise InvalidInput(str(error)) from error
    outputs = {*requested_outputs(checked)}.difference(DETECTED_OUTPUTS)
    if outputs:
        raise InvalidInput(
            f"a document has no {', '.join(sorted(outputs))}: leave such options out"
        )
    stored = {"glossary_ids": list(ids) if ids else None, "memory_id": memory_id}
    return checked | {name: value for name, value in stored.items() if value}

"""Translation memories in DeepL's form: imported and exported by jobs, listed, read and deleted.

A client uploads a file to a URL with a secret, and downloads one from such a URL, without its key.
The jobs are in this process, and forgotten after an hour.

Source: https://developers.deepl.com/api-reference/translation-memory
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from dragoman_documents.memory.pairs import Pair
from starlette.responses import Response, StreamingResponse

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import GatewayError, InvalidInput, NotFound, TooManyRequests
from dragoman_gateway.jobs.job_upload import JobUpload
from dragoman_gateway.memories.memories import StoredMemory
from dragoman_gateway.protocols.deepl.deepl_options import Call, needed
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.web.fields import Fields
from dragoman_gateway.web.requests import GatewayRequest, public_url
from dragoman_gateway.web.responses import json_response

FILES = "/v3/translation_memories/files/"
"""Where files are sent and fetched."""
_EXPIRY_S = 3600.0
_MOST_JOBS = 1000
_MOST_JOBS_OF_OWNER = 100
_MOST_PAGE, _PAGE = 25, 10
_MOST_SEGMENTS, _SEGMENTS = 100, 50
_LEAST_FILTER = 2
_TMX = "application/xml"


@dataclass
class _Job:
    """An import or an export.

    Attributes:
        owner: owner of the memory.
        key: the key of the request that began it, for the request with its file; None: none.
        operation: "import" or "export".
        parameters: parameters of the request.
        status: as in DeepL's answers.
        memory_id: the memory; None: not made yet.
        error: why it failed; empty if it did not.
        skipped: units of the file that were not imported.
        id: its id.
        secret: the end of the URL of its file.
        created: when it began.
        updated: when its status changed.
        begun_s: the same time as `created`, for its end.
    """

    owner: str
    key: str | None
    operation: str
    parameters: dict[str, Any]
    status: str
    memory_id: str | None = None
    error: str = ""
    skipped: int = 0
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    updated: datetime = field(default_factory=lambda: datetime.now(UTC))
    begun_s: float = field(default_factory=time.monotonic)

    def change(self, status: str) -> None:
        """Set the status."""
        self.status, self.updated = status, datetime.now(UTC)

    @property
    def is_forgotten(self) -> bool:
        """Whether its time is over."""
        return time.monotonic() - self.begun_s >= _EXPIRY_S


class Memories:
    """Endpoints for translation memories."""

    def __init__(self, gateway: Gateway, key_of: Callable[[GatewayRequest], str | None]) -> None:
        """Start without jobs.

        Args:
            gateway: the gateway's core.
            key_of: returns the key of a request.
        """
        self._gateway, self._memories, self._key_of = gateway, gateway.memories, key_of
        self._jobs: dict[str, _Job] = {}
        """The jobs by the secret of their file, the oldest first."""

    def key_of_file(self, path: str) -> str | None:
        """Returns the key that began the job whose file a path names."""
        job = self._job(path.removeprefix(FILES))
        return None if job is None else job.key

    async def all(self, call: Call) -> Response:
        """Return a page of the memories."""
        page = call.fields.whole_number("page") or 0
        size = call.fields.whole_number("page_size") or _PAGE
        if page < 0 or not 1 <= size <= _MOST_PAGE:
            raise InvalidInput(f"page is from 0, page_size from 1 to {_MOST_PAGE}")
        stored = await self._memories.all(call.caller)
        shown = [_written(memory) for memory in stored[page * size : (page + 1) * size]]
        return json_response({"translation_memories": shown, "total_count": len(stored)})

    async def get(self, call: Call) -> Response:
        """Return a memory."""
        memory = await self._memories.get(call.caller, call.path("memory_id"))
        return json_response(_written(memory))

    async def delete(self, call: Call) -> Response:
        """Delete a memory."""
        await self._memories.delete(call.caller, call.path("memory_id"))
        return Response(status_code=204)

    async def segments(self, call: Call) -> Response:
        """Return a page of the segments of a memory."""
        size = call.fields.whole_number("page_size") or _SEGMENTS
        after = call.fields.whole_number("page_cursor") or 0
        part = call.fields.text("filter_text") or ""
        if not 1 <= size <= _MOST_SEGMENTS or not 0 <= after < 1 << 63:
            raise InvalidInput(f"page_size is from 1 to {_MOST_SEGMENTS}, page_cursor from answers")
        if part and len(part) < _LEAST_FILTER:
            raise InvalidInput(f"filter_text has less than {_LEAST_FILTER} characters")
        memory = await self._memories.get(call.caller, call.path("memory_id"))
        has_case = bool(call.fields.switch("filter_case_sensitive"))
        page, following = await self._memories.page(
            call.caller, memory.id, after, size, part, has_case
        )
        answer: dict[str, Any] = {
            "segments": [
                {
                    "source_segment_id": str(number),
                    "source_text": pair.source,
                    "targets": [
                        {
                            "target_segment_id": str(number),
                            "target_language": memory.target_language,
                            "target_text": pair.target,
                        }
                    ],
                }
                for number, pair in page
            ],
            "segment_count": memory.segment_count,
        }
        if following is not None:
            answer["next_page_cursor"] = str(following)
        return json_response(answer)

    async def begin_import(self, call: Call) -> Response:
        """Begin an import; its file follows."""
        fields, caller = call.fields, call.caller
        caller.check_owns("stored translation memories")
        file = Fields(fields.object("source_file"))
        name = Fields(fields.object("parameters")).text("display_name") or needed(file, "file_name")
        size = file.whole_number("content_length") or 0
        most = self._gateway.settings.file_bytes
        if not 0 < size <= most:
            raise InvalidInput(f"source_file.content_length: give 1 to {most:,} bytes")
        parameters = {"display_name": name}
        imports = self._gateway.imports
        imports.hold(caller.name)  # refused before its file is sent, if it would be now
        imports.let_go(caller.name)
        job = self._add(
            _Job(caller.owner, self._key_of(call.request), "import", parameters, "awaiting_input")
        )
        answer = {
            "job_id": job.id,
            "upload_url": self._url(call.request, job),
            "expires_at": _end(job),
        }
        return json_response(answer, 202)

    async def begin_export(self, call: Call) -> Response:
        """Begin an export, which is complete at once: its file is written while it is fetched."""
        memory = await self._memories.get(call.caller, call.path("memory_id"))
        parameters = {"translation_memory_id": memory.id}
        job = _Job(
            call.caller.owner,
            self._key_of(call.request),
            "export",
            parameters,
            "completed",
            memory.id,
        )
        return json_response({"job_id": self._add(job).id, "parameters": parameters}, 202)

    async def job(self, call: Call) -> Response:
        """Return the state of an import or export."""
        job_id = call.path("job_id")
        for job in self._jobs.values():
            if job.id == job_id and job.owner == call.caller.owner and not job.is_forgotten:
                return json_response(self._written_job(call.request, job))
        raise NotFound(f"there is no job {job_id[:60]!r}; jobs are forgotten after an hour")

    async def upload(self, request: GatewayRequest, caller: Caller) -> Response:
        """Receive the file of an import, and begin to read it."""
        job = self._job_of_file(request, "import")
        if job.status != "awaiting_input":
            raise InvalidInput("the file of this import was sent before, or is being sent")
        self._gateway.imports.hold(caller.name)
        job.change("processing")
        upload = self._gateway.jobs.upload()
        try:
            async for chunk in request.stream():
                await asyncio.to_thread(upload.write, chunk)
                if request.bounded_body is not None:
                    request.bounded_body.move_to_file(len(chunk))
            await asyncio.to_thread(upload.seek, 0)
        except BaseException:
            self._let_go(caller, upload)
            job.change("awaiting_input")
            raise
        task = asyncio.create_task(self._import(caller, job, upload))
        self._gateway.importing.add(task)
        task.add_done_callback(self._gateway.importing.discard)
        # A task that is cancelled before it begins runs none of its code.
        task.add_done_callback(lambda _: self._let_go(caller, upload))
        return Response(status_code=200)

    async def download(self, request: GatewayRequest, caller: Caller) -> Response:
        """Return the file of an export."""
        job = self._job_of_file(request, "export")
        content = await self._memories.tmx(caller, str(job.memory_id))
        job.change("downloaded")
        return StreamingResponse(content, 200, media_type=_TMX)

    async def _import(self, caller: Caller, job: _Job, upload: JobUpload) -> None:
        try:
            reading = self._gateway.readers.pairs(upload.path, upload.size_bytes, (None, None))
            async with reading as read:
                first = await read()
                served = await self._gateway.translations.languages()
                source, target = first.languages
                languages = (
                    served.find(source, served.sources, "srclang"),
                    served.find(target, served.targets, "xml:lang"),
                )
                memory = await self._memories.create(
                    caller, job.parameters["display_name"], languages
                )
                waiting = [first.pairs]

                async def pairs() -> Sequence[Pair]:
                    if waiting:
                        return waiting.pop()
                    some = await read()
                    job.skipped = some.skipped
                    return some.pairs

                try:
                    await self._memories.add(caller, memory.id, pairs)
                except BaseException:
                    await self._memories.delete(caller, memory.id)
                    raise
            job.memory_id = memory.id
            job.change("completed")
        except GatewayError as error:
            job.error = str(error)
            job.change("failed")
        except BaseException:
            job.error = "the import failed: see the gateway's log"
            job.change("failed")
            raise

    def _let_go(self, caller: Caller, upload: JobUpload) -> None:
        self._gateway.imports.let_go(caller.name)
        upload.close()

    def _job(self, secret: str) -> _Job | None:
        job = self._jobs.get(secret)
        return None if job is None or job.is_forgotten else job

    def _add(self, job: _Job) -> _Job:
        """Store a job."""
        self._jobs = {secret: kept for secret, kept in self._jobs.items() if not kept.is_forgotten}
        own = sum(kept.owner == job.owner for kept in self._jobs.values())
        if len(self._jobs) >= _MOST_JOBS or own >= _MOST_JOBS_OF_OWNER:
            raise TooManyRequests("there are too many imports and exports: try again in an hour")
        self._jobs[job.secret] = job
        return job

    def _job_of_file(self, request: GatewayRequest, operation: str) -> _Job:
        job = self._job(request.path_params["secret"])
        if job is None or job.operation != operation:
            raise NotFound("there is no such file: its job was forgotten")
        return job

    def _url(self, request: GatewayRequest, job: _Job) -> str:
        return f"{public_url(request, self._gateway.settings)}{FILES}{job.secret}"

    def _written_job(self, request: GatewayRequest, job: _Job) -> dict[str, Any]:
        result: dict[str, Any] = {"status": job.status}
        if job.status == "awaiting_input":
            result["status_metadata"] = {"required_action": "upload the file to upload_url"}
        if job.error:
            result["error"] = {"message": job.error}
        if job.operation == "export":
            result |= {"download_url": self._url(request, job), "expires_at": _end(job)}
        elif job.memory_id is not None:
            result["translation_memory_id"] = job.memory_id
            result["skipped_segment_count"] = job.skipped
        return {
            "job_id": job.id,
            "product": "translation_memory",
            "operation": job.operation,
            "creation_time": _time(job.created),
            "updated_time": _time(job.updated),
            "parameters": job.parameters,
            "results": [result],
        }


def _written(memory: StoredMemory) -> dict[str, Any]:
    return {
        "translation_memory_id": memory.id,
        "name": memory.name,
        "source_language": memory.source_language,
        "target_languages": [memory.target_language],
        "segment_count": memory.segment_count,
        "creation_time": _time(memory.created),
        "updated_time": _time(memory.updated),
    }


def _end(job: _Job) -> str:
    return _time(datetime.fromtimestamp(job.created.timestamp() + _EXPIRY_S, UTC))


def _time(when: datetime) -> str:
    # DeepL's Python client cannot parse a time without a fraction.
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")

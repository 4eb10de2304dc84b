"""Endpoints for stored data: glossaries and documents."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any

from dragoman_client.files.glossary_files import GlossaryForm, format_glossary, parse_glossary
from dragoman_options.table import TRANSLATE
from starlette.datastructures import UploadFile
from starlette.responses import Response

from dragoman_gateway.core.errors import InvalidInput, NotFound, WrongMediaType
from dragoman_gateway.glossaries.glossaries import Dictionary
from dragoman_gateway.protocols.own.answers import glossary_answer, job_answer
from dragoman_gateway.protocols.own.bodies import (
    options_of_form,
    read_body,
    read_object,
    read_switch,
)
from dragoman_gateway.protocols.own.callers import caller_of, counted_caller_of
from dragoman_gateway.protocols.own.replies import NO_STORE, location_of, reply
from dragoman_gateway.protocols.own.shapes import (
    DocumentFields,
    GlossariesAnswer,
    GlossaryRequest,
    JobsAnswer,
    RenameRequest,
)
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.web.downloads import file_response
from dragoman_gateway.web.requests import (
    JSON,
    MULTIPART,
    GatewayRequest,
    upload_of,
    while_connected,
)

CSV = "text/csv"
TSV = "text/tab-separated-values"
MOST_WAIT_S = 60.0
_FILE = "file"
_FORMS: Mapping[str, GlossaryForm] = {JSON: "json", CSV: "csv", TSV: "tsv"}


class Glossaries:
    """Endpoints for glossaries."""

    def __init__(self, gateway: Gateway) -> None:
        """Store the core."""
        self._gateway, self._store = gateway, gateway.glossaries

    async def create(self, request: GatewayRequest) -> Response:
        """Create a glossary."""
        caller = await counted_caller_of(self._gateway, request)
        fields = read_body(request, GlossaryRequest).fields
        dictionaries = [
            Dictionary(
                *await self._languages(given.source_language, given.target_language),
                given.entries,
                len(given.entries),
            )
            for given in fields.dictionaries
        ]
        glossary = await self._store.create(caller, fields.name, dictionaries)
        headers = location_of(request, self._gateway.settings, glossary.id)
        return reply(glossary_answer(glossary, request.request_id), 201, headers)

    async def all(self, request: GatewayRequest) -> Response:
        """Return the caller's glossaries."""
        glossaries = await self._store.all(await counted_caller_of(self._gateway, request))
        return reply(GlossariesAnswer([glossary_answer(g) for g in glossaries], request.request_id))

    async def get(self, request: GatewayRequest) -> Response:
        """Return a glossary, without its entries."""
        caller = await counted_caller_of(self._gateway, request)
        glossary = await self._store.get(caller, request.path_params["id"])
        return reply(glossary_answer(glossary, request.request_id))

    async def rename(self, request: GatewayRequest) -> Response:
        """Rename a glossary."""
        caller = await counted_caller_of(self._gateway, request)
        name = read_body(request, RenameRequest).fields.name
        glossary = await self._store.rename(caller, request.path_params["id"], name)
        return reply(glossary_answer(glossary, request.request_id))

    async def delete(self, request: GatewayRequest) -> Response:
        """Delete a glossary."""
        caller = await counted_caller_of(self._gateway, request)
        await self._store.delete(caller, request.path_params["id"])
        return Response(status_code=204, headers=NO_STORE)

    async def entries(self, request: GatewayRequest) -> Response:
        """Return the terms of a direction: in JSON, or the format of the header `Accept`."""
        caller = await counted_caller_of(self._gateway, request)
        source, target = await self._direction(request)
        glossary = await self._store.get(caller, request.path_params["id"], entries=True)
        for dictionary in glossary.dictionaries:
            if (dictionary.source_language, dictionary.target_language) == (source, target):
                # In a thread: 10 MB take 0.2 s.
                accept = request.headers.get("accept", "")
                return await asyncio.to_thread(_written, dictionary.entries or {}, accept)
        raise NotFound(f"the glossary has no dictionary from {source} to {target}")

    async def replace(self, request: GatewayRequest) -> Response:
        """Add or replace the terms of a direction."""
        return await self._put(request, merge=False)

    async def merge(self, request: GatewayRequest) -> Response:
        """Merge terms into those of a direction; new ones replace existing ones."""
        return await self._put(request, merge=True)

    async def delete_entries(self, request: GatewayRequest) -> Response:
        """Delete the terms of a direction."""
        caller = await counted_caller_of(self._gateway, request)
        source, target = await self._direction(request)
        await self._store.delete_dictionary(caller, request.path_params["id"], source, target)
        return Response(status_code=204, headers=NO_STORE)

    async def _put(self, request: GatewayRequest, merge: bool) -> Response:
        caller = await counted_caller_of(self._gateway, request)
        source, target = await self._direction(request)
        entries = await asyncio.to_thread(read_terms, request)  # up to 0.3 s
        dictionary = Dictionary(source, target, entries, len(entries))
        glossary = await self._store.put(caller, request.path_params["id"], dictionary, merge)
        return reply(glossary_answer(glossary, request.request_id))

    async def _direction(self, request: GatewayRequest) -> tuple[str, str]:
        path = request.path_params
        return await self._languages(path["source"], path["target"])

    async def _languages(self, source: str, target: str) -> tuple[str, str]:
        """Returns the server's codes of the languages."""
        served = await self._gateway.translations.languages()
        return (
            served.find(source, served.sources, "source_language"),
            served.find(target, served.targets, "target_language"),
        )


class Documents:
    """Endpoints for documents."""

    def __init__(self, gateway: Gateway) -> None:
        """Store the core."""
        self._gateway, self._jobs = gateway, gateway.jobs

    async def submit(self, request: GatewayRequest) -> Response:
        """Translate a document in the background."""
        caller = await caller_of(self._gateway, request)
        if request.media_type != MULTIPART:
            raise WrongMediaType(
                f"send {MULTIPART} with the document in the field {_FILE!r}, "
                "and options in other fields"
            )
        file, fields, options = await self._read(await request.read_fields())
        submitting = self._jobs.submit(
            caller,
            file.filename or "",
            upload_of(file),
            options,
            columns=fields.columns,
            titles=fields.titles,
        )
        job = await while_connected(request.receive, submitting)
        headers = location_of(request, self._gateway.settings, job.id)
        return reply(job_answer(job, request.request_id), 202, headers)

    async def all(self, request: GatewayRequest) -> Response:
        """Return the caller's documents."""
        jobs = await self._jobs.all(await caller_of(self._gateway, request))
        return reply(JobsAnswer([job_answer(job) for job in jobs], request.request_id))

    async def get(self, request: GatewayRequest) -> Response:
        """Return the progress of a document; waits for its end, up to `wait_s` of the query."""
        caller = await caller_of(self._gateway, request)
        wait_s = _seconds(request.query_params.get("wait_s", "0"))
        job = await self._jobs.get(caller, request.path_params["id"], wait_s)
        return reply(job_answer(job, request.request_id))

    async def result(self, request: GatewayRequest) -> Response:
        """Return the translated document."""
        caller = await caller_of(self._gateway, request)
        job_id = request.path_params["id"]
        path = await self._jobs.result(caller, job_id)
        job = await self._jobs.get(caller, job_id)
        return await file_response(path, job.file_name)

    async def delete(self, request: GatewayRequest) -> Response:
        """Cancel a document, and delete its files."""
        caller = await caller_of(self._gateway, request)
        await self._jobs.delete(caller, request.path_params["id"])
        return Response(status_code=204, headers=NO_STORE)

    async def _read(
        self, form: dict[str, Any]
    ) -> tuple[UploadFile, DocumentFields, dict[str, Any]]:
        """Returns the file of a form, its own other fields, and the options."""
        file = form.pop(_FILE, None)
        if not isinstance(file, UploadFile):
            raise InvalidInput(f"send one file, with its name, in the field {_FILE!r}")
        lists = {name: _texts(name, form.pop(name, [])) for name in ("glossary_ids", "columns")}
        for name, value in form.items():
            if not isinstance(value, str):
                raise InvalidInput(f"{name[:60]!r}: give one value, which is a text")
        fields = options_of_form(form) | lists
        if "titles" in form:
            fields["titles"] = read_switch("titles", form["titles"])
        limits = (await self._gateway.translations.info()).limits
        body = read_object(fields, DocumentFields, TRANSLATE, limits)
        stored = {"glossary_ids": body.fields.glossary_ids, "memory_id": body.fields.memory_id}
        options = body.options | {name: value for name, value in stored.items() if value}
        return file, body.fields, options


def read_terms(request: GatewayRequest) -> dict[str, str]:
    """Read target terms by source term, from a JSON object, or lines of CSV or TSV.

    Raises:
        InvalidInput: the body is malformed.
        WrongMediaType: the content type is not supported.
    """
    if (form := _FORMS.get(request.media_type)) is None:
        sent = repr(request.media_type[:80]) if request.media_type else "none"
        raise WrongMediaType(f"the content type is {sent}: send {', '.join(_FORMS)}")
    try:
        return parse_glossary(request.content, form)
    except ValueError as error:
        raise InvalidInput(f"the body: {error}") from error


def _written(entries: Mapping[str, str], accept: str) -> Response:
    kinds = [kind.partition(";")[0].strip().lower() for kind in accept.split(",")]
    media_type = next((kind for kind in kinds if kind in _FORMS), JSON)
    content = format_glossary(entries, _FORMS[media_type])
    return Response(content, headers=NO_STORE, media_type=media_type)


def _texts(name: str, given: Any) -> list[str]:
    """Returns the texts in a repeated field, or a field with commas."""
    values = given if isinstance(given, list) else [given]
    if not all(isinstance(value, str) for value in values):
        raise InvalidInput(f"{name}: give texts, not files")
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def _seconds(written: str) -> float:
    try:
        seconds = float(written)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= MOST_WAIT_S:
        raise InvalidInput(f"wait_s is {written[:40]!r}: give 0 to {MOST_WAIT_S:g} seconds")
    return seconds

"""Endpoints for stored data: glossaries and documents."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from dragoman_options.table import AUTO
from starlette.datastructures import UploadFile
from starlette.responses import Response

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import InvalidInput, NotFound, Unsupported, WrongMediaType
from dragoman_gateway.glossaries.glossaries import Glossary
from dragoman_gateway.protocols.deepl import deepl_documents as documents
from dragoman_gateway.protocols.deepl import deepl_glossaries as glossaries
from dragoman_gateway.protocols.deepl.deepl_options import (
    Call,
    glossary_ids,
    memory_of,
    needed,
    refuse_what_is_not_offered,
    translation_direction,
)
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.web.downloads import file_response
from dragoman_gateway.web.late_answers import late_answer
from dragoman_gateway.web.requests import MULTIPART, upload_of, while_connected
from dragoman_gateway.web.responses import json_response

_STATUS_WAIT_S = 7.0
"""How long a status request waits for the end of a document: clients time out after 10 s without
data, and sleep for 5 s between two requests."""


class Glossaries:
    """Endpoints for glossaries: with one direction in /v2, with several in /v3."""

    def __init__(self, gateway: Gateway) -> None:
        """Store the core."""
        self._store, self._translations = gateway.glossaries, gateway.translations

    async def directions(self, _call: Call) -> Response:
        """Return the directions that support glossaries."""
        pairs = sorted((await self._translations.languages()).direct)
        return json_response(
            {
                "supported_languages": [
                    {"source_lang": src.lower(), "target_lang": tgt.lower()} for src, tgt in pairs
                ]
            }
        )

    async def create_single(self, call: Call) -> Response:
        """Create a glossary with one direction."""
        dictionary = await asyncio.to_thread(
            glossaries.read_dictionary, call.fields, await self._translations.languages()
        )
        name = needed(call.fields, "name")
        made = await self._store.create(call.caller, name, [dictionary])
        return json_response(glossaries.written_single(made), 201)

    async def list_single(self, call: Call) -> Response:
        """Return the glossaries with one direction."""
        stored = await self._store.all(call.caller)
        single = [
            glossaries.written_single(glossary)
            for glossary in stored
            if len(glossary.dictionaries) == 1
        ]
        return json_response({"glossaries": single})

    async def get_single(self, call: Call) -> Response:
        """Return a glossary with one direction, without its entries."""
        return json_response(glossaries.written_single(await self._single(call)))

    async def entries_of_single(self, call: Call) -> Response:
        """Return the entries of a glossary with one direction."""
        accepted = call.request.headers.get("accept", "*/*")
        if not any(kind in accepted for kind in (glossaries.TSV, "text/*", "*/*")):
            raise WrongMediaType(f"Accept: entries are sent as {glossaries.TSV}")
        (dictionary,) = (await self._single(call, entries=True)).dictionaries
        content = await asyncio.to_thread(glossaries.tsv_of, dictionary)
        return Response(content, media_type=glossaries.TSV)

    async def _single(self, call: Call, entries: bool = False) -> Glossary:
        """Returns the glossary with one dictionary that a path names."""
        glossary = await self._store.get(call.caller, call.path("glossary_id"), entries)
        if (count := len(glossary.dictionaries)) != 1:
            raise NotFound(f"The glossary has {count} dictionaries: use /v3/glossaries")
        return glossary

    async def delete_glossary(self, call: Call) -> Response:
        """Delete a glossary."""
        await self._store.delete(call.caller, call.path("glossary_id"))
        return Response(status_code=204)

    async def create_glossary(self, call: Call) -> Response:
        """Create a glossary."""
        name = needed(call.fields, "name")
        dictionaries = await asyncio.to_thread(
            glossaries.read_dictionaries, call.fields, await self._translations.languages()
        )
        if not dictionaries:
            raise InvalidInput("Parameter 'dictionaries' not specified.")
        made = await self._store.create(call.caller, name, dictionaries)
        return json_response(glossaries.written_glossary(made), 201)

    async def list_glossaries(self, call: Call) -> Response:
        """Return all glossaries."""
        stored = await self._store.all(call.caller)
        return json_response(
            {"glossaries": [glossaries.written_glossary(glossary) for glossary in stored]}
        )

    async def get_glossary(self, call: Call) -> Response:
        """Return a glossary, without its entries."""
        glossary = await self._store.get(call.caller, call.path("glossary_id"))
        return json_response(glossaries.written_glossary(glossary))

    async def patch_glossary(self, call: Call) -> Response:
        """Rename a glossary, or merge dictionaries into it."""
        glossary_id = call.path("glossary_id")
        dictionaries = await asyncio.to_thread(
            glossaries.read_dictionaries, call.fields, await self._translations.languages()
        )
        name = call.fields.text("name")
        if name is None and not dictionaries:
            raise InvalidInput("Give a name, or dictionaries to merge")
        glossary = await self._store.get(call.caller, glossary_id)
        for dictionary in dictionaries:
            glossary = await self._store.put(call.caller, glossary_id, dictionary, merge=True)
        if name is not None:
            glossary = await self._store.rename(
                call.caller, glossary_id, needed(call.fields, "name")
            )
        return json_response(glossaries.written_glossary(glossary))

    async def entries(self, call: Call) -> Response:
        """Return the entries of a dictionary."""
        source, target = glossaries.direction(call.fields, await self._translations.languages())
        glossary = await self._store.get(call.caller, call.path("glossary_id"), entries=True)
        dictionary = glossaries.find_dictionary(glossary, source, target)
        written = await asyncio.to_thread(glossaries.written_entries, dictionary)
        return await asyncio.to_thread(json_response, {"dictionaries": [written]})

    async def put_dictionary(self, call: Call) -> Response:
        """Add or replace a dictionary."""
        dictionary = await asyncio.to_thread(
            glossaries.read_dictionary, call.fields, await self._translations.languages()
        )
        glossary = await self._store.put(call.caller, call.path("glossary_id"), dictionary)
        kept = glossaries.find_dictionary(
            glossary, dictionary.source_language, dictionary.target_language
        )
        return json_response(glossaries.written_dictionary(kept))

    async def delete_dictionary(self, call: Call) -> Response:
        """Delete a dictionary."""
        source, target = glossaries.direction(call.fields, await self._translations.languages())
        await self._store.delete_dictionary(call.caller, call.path("glossary_id"), source, target)
        return Response(status_code=204)


class Documents:
    """Endpoints for documents."""

    def __init__(self, gateway: Gateway) -> None:
        """Store the core."""
        self._gateway = gateway

    async def upload(self, call: Call) -> Response:
        """Translate a document in the background."""
        fields = call.fields
        if call.request.media_type != MULTIPART:
            raise InvalidInput("Send the document in multipart/form-data")
        if (file := fields.file("file")) is None:
            raise InvalidInput("Parameter 'file' not specified.")
        source, target = translation_direction(fields, await self._gateway.translations.languages())
        refuse_what_is_not_offered(fields, needed(fields, "target_lang"))
        if source == target:
            raise InvalidInput("Source and target language are equal.")
        name = fields.text("filename") or file.filename or ""
        ending = f".{name.rpartition('.')[2].lower()}"
        output = (fields.text("output_format") or "").lower()
        if output and f".{output}" != ending:
            raise Unsupported(
                f"output_format: a document is returned in its own format, {ending[1:][:20]}. "
                "Send the request without it"
            )
        options: dict[str, Any] = {
            "source_language": source or AUTO,
            "target_language": target,
        }
        if glossary := glossary_ids(fields):
            options["glossary_ids"] = glossary
        options |= memory_of(fields)
        answering = late_answer(self._submit(call.caller, name, file, options))
        return await while_connected(call.request.receive, answering)

    async def _submit(
        self, caller: Caller, name: str, file: UploadFile, options: dict[str, Any]
    ) -> Response:
        """Submit a document; reading a large one with markup takes time."""
        job = await self._gateway.jobs.submit(
            caller, name, upload_of(file), options, source_field="source_lang"
        )
        return json_response(
            {
                "document_id": documents.written_id(job),
                "document_key": documents.document_key(job.id),
            }
        )

    async def status(self, call: Call) -> Response:
        """Return the progress of a document; waits a few seconds for its end."""
        job_id = _document_id(call)
        job = await self._gateway.jobs.get(call.caller, job_id, _STATUS_WAIT_S)
        return json_response(documents.written_status(job))

    async def result(self, call: Call) -> Response:
        """Return the translated document, which is deleted after it is sent."""
        jobs, job_id = self._gateway.jobs, _document_id(call)
        job = await jobs.get(call.caller, job_id)
        if job.state in ("failed", "cancelled"):
            raise NotFound(documents.written_status(job)["error_message"])
        path = await jobs.result(call.caller, job_id)

        async def delete() -> None:
            with contextlib.suppress(NotFound):  # another request has already deleted it
                await jobs.delete(call.caller, job_id)

        return await file_response(path, job.file_name, delete)


def _document_id(call: Call) -> str:
    """Returns the id of the document that a path names."""
    job_id = call.path("document_id").lower()
    documents.check_key(job_id, needed(call.fields, "document_key"))
    return job_id

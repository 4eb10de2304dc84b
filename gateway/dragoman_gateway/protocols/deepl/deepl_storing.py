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
    glossary_ids,
    memory_of,
    needed,
    refuse_what_is_not_offered,
    translation_direction,
)
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.web.downloads import file_response
from dragoman_gateway.web.fields import Fields
from dragoman_gateway.web.late_answers import late_answer
from dragoman_gateway.web.requests import MULTIPART, GatewayRequest, upload_of, while_connected
from dragoman_gateway.web.responses import json_response

_STATUS_WAIT_S = 7.0
"""How long a status request waits for the end of a document: clients time out after 10 s without
data, and sleep for 5 s between two requests."""


class Glossaries:
    """Endpoints for glossaries: with one direction in /v2, with several in /v3."""

    def __init__(self, gateway: Gateway) -> None:
        """Store the core."""
        self._gateway = gateway

    async def directions(
        self, _request: GatewayRequest, _fields: Fields, _caller: Caller
    ) -> Response:
        """Return the directions that support glossaries."""
        pairs = sorted((await self._gateway.translations.languages()).direct)
        return json_response(
            {
                "supported_languages": [
                    {"source_lang": src.lower(), "target_lang": tgt.lower()} for src, tgt in pairs
                ]
            }
        )

    async def create_single(
        self, _request: GatewayRequest, fields: Fields, caller: Caller
    ) -> Response:
        """Create a glossary with one direction."""
        dictionary = await asyncio.to_thread(
            glossaries.read_dictionary, fields, await self._gateway.translations.languages()
        )
        name = needed(fields, "name")
        made = await self._gateway.glossaries.create(caller, name, [dictionary])
        return json_response(glossaries.written_single(made), 201)

    async def list_single(
        self, _request: GatewayRequest, _fields: Fields, caller: Caller
    ) -> Response:
        """Return the glossaries with one direction."""
        stored = await self._gateway.glossaries.all(caller)
        single = [
            glossaries.written_single(glossary)
            for glossary in stored
            if len(glossary.dictionaries) == 1
        ]
        return json_response({"glossaries": single})

    async def get_single(
        self, request: GatewayRequest, _fields: Fields, caller: Caller
    ) -> Response:
        """Return a glossary with one direction, without its entries."""
        return json_response(glossaries.written_single(await self._single(request, caller)))

    async def entries_of_single(
        self, request: GatewayRequest, _fields: Fields, caller: Caller
    ) -> Response:
        """Return the entries of a glossary with one direction."""
        accepted = request.headers.get("accept", "*/*")
        if not any(kind in accepted for kind in (glossaries.TSV, "text/*", "*/*")):
            raise WrongMediaType(f"Accept: entries are sent as {glossaries.TSV}")
        (dictionary,) = (await self._single(request, caller, entries=True)).dictionaries
        content = await asyncio.to_thread(glossaries.tsv_of, dictionary)
        return Response(content, media_type=glossaries.TSV)

    async def _single(
        self, request: GatewayRequest, caller: Caller, entries: bool = False
    ) -> Glossary:
        """Returns the glossary with one dictionary that a path names.

        Raises:
            NotFound: it has no dictionary, or several, which /v2 does not support.
        """
        glossary_id = _glossary_id(request)
        glossary = await self._gateway.glossaries.get(caller, glossary_id, entries)
        if len(glossary.dictionaries) != 1:
            count = len(glossary.dictionaries)
            raise NotFound(f"The glossary has {count} dictionaries: use /v3/glossaries")
        return glossary

    async def delete_glossary(
        self, request: GatewayRequest, _fields: Fields, caller: Caller
    ) -> Response:
        """Delete a glossary."""
        await self._gateway.glossaries.delete(caller, _glossary_id(request))
        return Response(status_code=204)

    async def create_glossary(
        self, _request: GatewayRequest, fields: Fields, caller: Caller
    ) -> Response:
        """Create a glossary."""
        name = needed(fields, "name")
        dictionaries = await asyncio.to_thread(
            glossaries.read_dictionaries, fields, await self._gateway.translations.languages()
        )
        if not dictionaries:
            raise InvalidInput("Parameter 'dictionaries' not specified.")
        made = await self._gateway.glossaries.create(caller, name, dictionaries)
        return json_response(glossaries.written_glossary(made), 201)

    async def list_glossaries(
        self, _request: GatewayRequest, _fields: Fields, caller: Caller
    ) -> Response:
        """Return all glossaries."""
        stored = await self._gateway.glossaries.all(caller)
        return json_response(
            {"glossaries": [glossaries.written_glossary(glossary) for glossary in stored]}
        )

    async def get_glossary(
        self, request: GatewayRequest, _fields: Fields, caller: Caller
    ) -> Response:
        """Return a glossary, without its entries."""
        glossary = await self._gateway.glossaries.get(caller, _glossary_id(request))
        return json_response(glossaries.written_glossary(glossary))

    async def patch_glossary(
        self, request: GatewayRequest, fields: Fields, caller: Caller
    ) -> Response:
        """Rename a glossary, or merge dictionaries into it."""
        store, glossary_id = self._gateway.glossaries, _glossary_id(request)
        dictionaries = await asyncio.to_thread(
            glossaries.read_dictionaries, fields, await self._gateway.translations.languages()
        )
        name = fields.text("name")
        if name is None and not dictionaries:
            raise InvalidInput("Give a name, or dictionaries to merge")
        glossary = await store.get(caller, glossary_id)
        for dictionary in dictionaries:
            glossary = await store.put(caller, glossary_id, dictionary, merge=True)
        if name is not None:
            glossary = await store.rename(caller, glossary_id, needed(fields, "name"))
        return json_response(glossaries.written_glossary(glossary))

    async def entries(self, request: GatewayRequest, fields: Fields, caller: Caller) -> Response:
        """Return the entries of a dictionary."""
        source, target = glossaries.direction(fields, await self._gateway.translations.languages())
        glossary = await self._gateway.glossaries.get(caller, _glossary_id(request), entries=True)
        dictionary = glossaries.find_dictionary(glossary, source, target)
        written = await asyncio.to_thread(glossaries.written_entries, dictionary)
        return await asyncio.to_thread(json_response, {"dictionaries": [written]})

    async def put_dictionary(
        self, request: GatewayRequest, fields: Fields, caller: Caller
    ) -> Response:
        """Add or replace a dictionary."""
        dictionary = await asyncio.to_thread(
            glossaries.read_dictionary, fields, await self._gateway.translations.languages()
        )
        glossary = await self._gateway.glossaries.put(caller, _glossary_id(request), dictionary)
        kept = glossaries.find_dictionary(
            glossary, dictionary.source_language, dictionary.target_language
        )
        return json_response(glossaries.written_dictionary(kept))

    async def delete_dictionary(
        self, request: GatewayRequest, fields: Fields, caller: Caller
    ) -> Response:
        """Delete a dictionary."""
        source, target = glossaries.direction(fields, await self._gateway.translations.languages())
        store = self._gateway.glossaries
        await store.delete_dictionary(caller, _glossary_id(request), source, target)
        return Response(status_code=204)


class Documents:
    """Endpoints for documents."""

    def __init__(self, gateway: Gateway) -> None:
        """Store the core."""
        self._gateway = gateway

    async def upload(self, request: GatewayRequest, fields: Fields, caller: Caller) -> Response:
        """Translate a document in the background."""
        if request.media_type != MULTIPART:
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
        answering = late_answer(self._submit(caller, name, file, options))
        return await while_connected(request.receive, answering)

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

    async def status(self, request: GatewayRequest, fields: Fields, caller: Caller) -> Response:
        """Return the progress of a document; waits a few seconds for its end."""
        job_id = _document_id(request, fields)
        job = await self._gateway.jobs.get(caller, job_id, _STATUS_WAIT_S)
        return json_response(documents.written_status(job))

    async def result(self, request: GatewayRequest, fields: Fields, caller: Caller) -> Response:
        """Return the translated document, which is deleted after it is sent."""
        jobs, job_id = self._gateway.jobs, _document_id(request, fields)
        job = await jobs.get(caller, job_id)
        if job.state in ("failed", "cancelled"):
            raise NotFound(documents.written_status(job)["error_message"])
        path = await jobs.result(caller, job_id)

        async def delete() -> None:
            with contextlib.suppress(NotFound):  # another request has already deleted it
                await jobs.delete(caller, job_id)

        return await file_response(path, job.file_name, delete)


def _glossary_id(request: GatewayRequest) -> str:
    glossary_id: str = request.path_params["glossary_id"]
    return glossary_id


def _document_id(request: GatewayRequest, fields: Fields) -> str:
    """Returns the id of the document that a path names.

    Raises:
        NotFound: the request does not have the document's key.
    """
    job_id = str(request.path_params["document_id"]).lower()
    documents.check_key(job_id, needed(fields, "document_key"))
    return job_id

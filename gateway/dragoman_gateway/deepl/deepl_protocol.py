"""DeepL's protocol, `/v2` and `/v3`: endpoints, shapes and errors.

Fields come as JSON, as a form or in the query, with any method: DeepL's client for Python sends a
form with GET.

Source: https://github.com/DeepLcom/openapi, and the clients, which read more than that tells
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from dragoman_options.table import AUTO
from starlette.responses import Response

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import (
    GatewayError,
    InvalidInput,
    KeyMissing,
    NotFound,
    QuotaUsedUp,
    Unsupported,
    WrongMediaType,
)
from dragoman_gateway.core.gateway import Gateway
from dragoman_gateway.core.glossaries import Dictionary, Glossary
from dragoman_gateway.core.languages import Languages
from dragoman_gateway.deepl import deepl_documents as documents
from dragoman_gateway.deepl import deepl_glossaries as glossaries
from dragoman_gateway.deepl import deepl_languages as codes
from dragoman_gateway.deepl.deepl_glossaries import needed
from dragoman_gateway.deepl.deepl_options import (
    glossary_ids,
    refuse_what_is_not_offered,
    text_options,
)
from dragoman_gateway.deepl.deepl_texts import translate_texts
from dragoman_gateway.web.downloads import file_response
from dragoman_gateway.web.endpoints import Endpoint
from dragoman_gateway.web.fields import Fields
from dragoman_gateway.web.late_answers import late_answer
from dragoman_gateway.web.requests import MULTIPART, GatewayRequest
from dragoman_gateway.web.responses import error_headers, json_response
from dragoman_gateway.web.uploads import content_of

Answer = Callable[[GatewayRequest, Fields, Caller], Awaitable[Response]]

_SCHEME = "deepl-auth-key"
_FREE = ":fx"
"""Ends the keys of DeepL's free accounts, by which its clients choose an address."""
_STATUS_WAIT_S = 7.0
"""A status is held back until the document is done: clients give up reading after 10 s, and sleep
for 5 s between two questions."""
_NO_LIMIT = 1_000_000_000_000
"""What DeepL gives as the limit of characters where there is none."""
_QUOTA_EXCEEDED = 456
_FEATURES = {
    "translate_text": ("auto_detection", "glossary"),
    "translate_document": ("auto_detection", "glossary"),
    "glossary": (),
}
"""By resource of /v3/languages."""
_NOT_OFFERED = {
    "/v2/admin": "administration of keys: use `dragoman keys`",
    "/v2/write": "rephrasing and correcting: a translation model cannot do it",
    "/v3/style_rules": "style rules: a translation model knows none",
    "/v3/translation_memories": "translation memories",
    "/v3/voice": "speech",
}


class DeepLProtocol:
    """See `ProtocolPackage`."""

    name = "deepl"

    def __init__(self, gateway: Gateway) -> None:
        """Begin."""
        self._gateway = gateway
        glossary = "/glossaries/{glossary_id}"
        self.endpoints = (
            self._endpoint("POST", "/v2/translate", self._translate),
            self._endpoint("GET", "/v2/translate", self._translate),
            self._endpoint("GET", "/v2/languages", self._languages),
            self._endpoint("POST", "/v2/languages", self._languages),
            self._endpoint("GET", "/v3/languages", self._languages_of_resource),
            self._endpoint("GET", "/v3/languages/resources", self._resources),
            self._endpoint("GET", "/v2/usage", self._usage),
            self._endpoint("POST", "/v2/usage", self._usage),
            self._endpoint("GET", "/v2/glossary-language-pairs", self._glossary_pairs),
            self._endpoint("POST", "/v2/glossaries", self._create_single),
            self._endpoint("GET", "/v2/glossaries", self._list_single),
            self._endpoint("GET", f"/v2{glossary}", self._get_single),
            self._endpoint("DELETE", f"/v2{glossary}", self._delete_glossary),
            self._endpoint("GET", f"/v2{glossary}/entries", self._entries_of_single),
            self._endpoint("POST", "/v3/glossaries", self._create_glossary),
            self._endpoint("GET", "/v3/glossaries", self._list_glossaries),
            self._endpoint("GET", f"/v3{glossary}", self._get_glossary),
            self._endpoint("PATCH", f"/v3{glossary}", self._patch_glossary),
            self._endpoint("DELETE", f"/v3{glossary}", self._delete_glossary),
            self._endpoint("GET", f"/v3{glossary}/entries", self._entries),
            self._endpoint("PUT", f"/v3{glossary}/dictionaries", self._put_dictionary),
            self._endpoint("DELETE", f"/v3{glossary}/dictionaries", self._delete_dictionary),
            self._endpoint("POST", "/v2/document", self._upload, reads_body=True),
            self._endpoint("POST", "/v2/document/{document_id}", self._document_status),
            self._endpoint("POST", "/v2/document/{document_id}/result", self._document_result),
        )

    def is_for(self, path: str) -> bool:
        """See `ProtocolPackage`."""
        return path.startswith(("/v2/", "/v3/"))

    def refuse(self, request: GatewayRequest, error: GatewayError) -> Response:
        """See `ProtocolPackage`."""
        message = str(error)
        if isinstance(error, NotFound):
            path = request.url.path
            for begin, what in _NOT_OFFERED.items():
                if path == begin or path.startswith(f"{begin}/"):
                    message = f"Not offered here: {what}"
        status = {KeyMissing: 403, QuotaUsedUp: _QUOTA_EXCEEDED}.get(type(error), error.status)
        headers = error_headers(error) | _trace(request)
        return json_response({"message": message}, status, headers)

    def _endpoint(
        self, method: str, path: str, answer: Answer, reads_body: bool = False
    ) -> Endpoint:
        """An endpoint whose handler gets the fields and the caller."""

        async def handle(request: GatewayRequest) -> Response:
            key = _key_of_header(request)
            access = self._gateway.access
            caller = None
            if key is not None:  # before a body is parsed
                caller = await access.caller(key, self.name, request.address)
            fields = Fields(await request.read_fields())
            if caller is None:
                key = fields.text("auth_key")
                caller = await access.caller(_bare(key), self.name, request.address)
            response = await answer(request, fields, caller)
            response.headers.update(_trace(request))
            return response

        return Endpoint(method, path, handle, reads_body)

    async def _served(self) -> Languages:
        return await self._gateway.translations.languages()

    async def _translate(self, request: GatewayRequest, fields: Fields, caller: Caller) -> Response:
        return await late_answer(self._translations_of(fields, caller))

    async def _translations_of(self, fields: Fields, caller: Caller) -> Response:
        if not (texts := fields.texts("text")):
            raise InvalidInput("Parameter 'text' not specified.")
        source, target = await self._direction(fields)
        how = text_options(fields, needed(fields, "target_lang"))
        found = await translate_texts(self._gateway, caller, texts, source, target, how)
        translations = []
        for text, one in zip(texts, found, strict=True):
            written: dict[str, Any] = {
                "detected_source_language": codes.written(one.source.language),
                "text": one.text,
            }
            if how.shows_billed_characters:
                written["billed_characters"] = len(text)
            if how.model_type_used:
                written["model_type_used"] = how.model_type_used
            translations.append(written)
        return json_response({"translations": translations})

    async def _direction(self, fields: Fields) -> tuple[str | None, str]:
        """The languages of a request: that of its texts, None to detect it, and the other one."""
        languages = await self._served()
        target = codes.target_language(needed(fields, "target_lang"), languages)
        given = fields.text("source_lang")
        return codes.source_language(given, languages) if given else None, target

    async def _languages(self, request: GatewayRequest, fields: Fields, caller: Caller) -> Response:
        languages = await self._served()
        kind = fields.text("type") or "source"
        if kind == "source":
            return json_response(
                [{"language": code, "name": name} for code, name in codes.sources(languages)]
            )
        if kind != "target":
            raise InvalidInput("Value for 'type' not supported. Supported are source, target")
        return json_response(
            [
                {"language": code, "name": name, "supports_formality": False}
                for code, name in codes.targets(languages)
            ]
        )

    async def _languages_of_resource(
        self, request: GatewayRequest, fields: Fields, caller: Caller
    ) -> Response:
        resource = needed(fields, "resource")
        if resource not in _FEATURES:
            offered = ", ".join(_FEATURES)
            raise InvalidInput(f"Value for 'resource' not supported. Supported are {offered}")
        features = {feature: {"status": "stable"} for feature in _FEATURES[resource]}
        rows = codes.every(await self._served(), variants=resource != "glossary")
        return json_response(
            [
                {
                    "lang": code.lower(),
                    "name": name,
                    "usable_as_source": is_source,
                    "usable_as_target": is_target,
                    "status": "stable",
                    "features": features,
                }
                for code, name, is_source, is_target in rows
            ]
        )

    async def _resources(self, request: GatewayRequest, fields: Fields, caller: Caller) -> Response:
        sides = {
            "auto_detection": {"needs_source_support": True},
            "glossary": {"needs_source_support": True, "needs_target_support": True},
        }
        return json_response(
            [
                {"name": name, "features": [{"name": one} | sides[one] for one in features]}
                for name, features in _FEATURES.items()
            ]
        )

    async def _usage(self, request: GatewayRequest, fields: Fields, caller: Caller) -> Response:
        usage = await self._gateway.access.usage(caller)
        limit = _NO_LIMIT if usage.characters_limit is None else usage.characters_limit
        return json_response(
            {
                "character_count": usage.characters,
                "character_limit": limit,
                "start_time": _time(usage.begin),
                "end_time": _time(usage.end),
            }
        )

    async def _glossary_pairs(
        self, request: GatewayRequest, fields: Fields, caller: Caller
    ) -> Response:
        pairs = sorted((await self._served()).directions)
        return json_response(
            {
                "supported_languages": [
                    {"source_lang": src.lower(), "target_lang": tgt.lower()} for src, tgt in pairs
                ]
            }
        )

    async def _create_single(
        self, request: GatewayRequest, fields: Fields, caller: Caller
    ) -> Response:
        dictionary = glossaries.read_dictionary(fields, await self._served())
        name = needed(fields, "name")
        made = await self._gateway.glossaries.create(caller, name, [dictionary])
        return json_response(glossaries.written_single(made), 201)

    async def _list_single(
        self, request: GatewayRequest, fields: Fields, caller: Caller
    ) -> Response:
        found = await self._gateway.glossaries.all(caller)
        single = [glossaries.written_single(one) for one in found if len(one.dictionaries) == 1]
        return json_response({"glossaries": single})

    async def _get_single(
        self, request: GatewayRequest, fields: Fields, caller: Caller
    ) -> Response:
        return json_response(glossaries.written_single(await self._single(request, caller)))

    async def _entries_of_single(
        self, request: GatewayRequest, fields: Fields, caller: Caller
    ) -> Response:
        accepted = request.headers.get("accept", "*/*")
        if not any(kind in accepted for kind in (glossaries.TSV, "text/*", "*/*")):
            raise WrongMediaType(f"Accept: entries are sent as {glossaries.TSV}")
        (dictionary,) = (await self._single(request, caller, entries=True)).dictionaries
        return Response(glossaries.tsv_of(dictionary), media_type=glossaries.TSV)

    async def _single(
        self, request: GatewayRequest, caller: Caller, entries: bool = False
    ) -> Glossary:
        """The glossary that a path names, which has one dictionary.

        Raises:
            NotFound: it has none, or several: /v2 cannot show it.
        """
        glossary_id = _glossary_id(request)
        glossary = await self._gateway.glossaries.get(caller, glossary_id, entries)
        if len(glossary.dictionaries) != 1:
            count = len(glossary.dictionaries)
            raise NotFound(f"The glossary has {count} dictionaries: use /v3/glossaries")
        return glossary

    async def _delete_glossary(
        self, request: GatewayRequest, fields: Fields, caller: Caller
    ) -> Response:
        await self._gateway.glossaries.delete(caller, _glossary_id(request))
        return Response(status_code=204)

    async def _create_glossary(
        self, request: GatewayRequest, fields: Fields, caller: Caller
    ) -> Response:
        name = needed(fields, "name")
        dictionaries = glossaries.read_dictionaries(fields, await self._served())
        if not dictionaries:
            raise InvalidInput("Parameter 'dictionaries' not specified.")
        made = await self._gateway.glossaries.create(caller, name, dictionaries)
        return json_response(glossaries.written_glossary(made), 201)

    async def _list_glossaries(
        self, request: GatewayRequest, fields: Fields, caller: Caller
    ) -> Response:
        found = await self._gateway.glossaries.all(caller)
        return json_response({"glossaries": [glossaries.written_glossary(one) for one in found]})

    async def _get_glossary(
        self, request: GatewayRequest, fields: Fields, caller: Caller
    ) -> Response:
        found = await self._gateway.glossaries.get(caller, _glossary_id(request))
        return json_response(glossaries.written_glossary(found))

    async def _patch_glossary(
        self, request: GatewayRequest, fields: Fields, caller: Caller
    ) -> Response:
        store, glossary_id = self._gateway.glossaries, _glossary_id(request)
        dictionaries = glossaries.read_dictionaries(fields, await self._served())
        name = fields.text("name")
        if name is None and not dictionaries:
            raise InvalidInput("Give a name, or dictionaries to merge")
        glossary = await store.get(caller, glossary_id)
        for dictionary in dictionaries:
            glossary = await store.put(caller, glossary_id, dictionary, merge=True)
        if name is not None:
            glossary = await store.rename(caller, glossary_id, needed(fields, "name"))
        return json_response(glossaries.written_glossary(glossary))

    async def _entries(self, request: GatewayRequest, fields: Fields, caller: Caller) -> Response:
        source, target = glossaries.direction(fields, await self._served())
        glossary = await self._gateway.glossaries.get(caller, _glossary_id(request), entries=True)
        dictionary = _dictionary(glossary, source, target)
        return json_response({"dictionaries": [glossaries.written_entries(dictionary)]})

    async def _put_dictionary(
        self, request: GatewayRequest, fields: Fields, caller: Caller
    ) -> Response:
        dictionary = glossaries.read_dictionary(fields, await self._served())
        glossary = await self._gateway.glossaries.put(caller, _glossary_id(request), dictionary)
        kept = _dictionary(glossary, dictionary.source_language, dictionary.target_language)
        return json_response(glossaries.written_dictionary(kept))

    async def _delete_dictionary(
        self, request: GatewayRequest, fields: Fields, caller: Caller
    ) -> Response:
        source, target = glossaries.direction(fields, await self._served())
        store = self._gateway.glossaries
        await store.delete_dictionary(caller, _glossary_id(request), source, target)
        return Response(status_code=204)

    async def _upload(self, request: GatewayRequest, fields: Fields, caller: Caller) -> Response:
        if request.media_type != MULTIPART:
            raise InvalidInput("Send the document in multipart/form-data")
        if (file := fields.file("file")) is None:
            raise InvalidInput("Parameter 'file' not specified.")
        source, target = await self._direction(fields)
        refuse_what_is_not_offered(fields, needed(fields, "target_lang"))
        if source == target:
            raise InvalidInput("Source and target language are equal.")
        name = fields.text("filename") or file.filename or ""
        ending = f".{name.rpartition('.')[2].lower()}"
        output = (fields.text("output_format") or "").lower()
        if output and f".{output}" != ending:
            raise Unsupported(
                f"output_format: a document comes back in its own format, {ending[1:][:20]}. "
                "Send the request without it"
            )
        options: dict[str, Any] = {
            "source_language": source or AUTO,
            "target_language": target,
        }
        if glossary := glossary_ids(fields):
            options["glossary_ids"] = glossary
        job = await self._gateway.jobs.submit(caller, name, content_of(file), options)
        return json_response(
            {
                "document_id": documents.written_id(job),
                "document_key": documents.document_key(job.id),
            }
        )

    async def _document_status(
        self, request: GatewayRequest, fields: Fields, caller: Caller
    ) -> Response:
        job_id = _document_id(request, fields)
        job = await self._gateway.jobs.get(caller, job_id, _STATUS_WAIT_S)
        return json_response(documents.written_status(job))

    async def _document_result(
        self, request: GatewayRequest, fields: Fields, caller: Caller
    ) -> Response:
        jobs, job_id = self._gateway.jobs, _document_id(request, fields)
        job = await jobs.get(caller, job_id)
        if job.state in ("failed", "cancelled"):
            raise NotFound(documents.written_status(job)["error_message"])
        path = await jobs.result(caller, job_id)

        async def delete() -> None:
            with contextlib.suppress(NotFound):  # somebody else was faster
                await jobs.delete(caller, job_id)

        return await file_response(path, job.file_name, delete)


def _key_of_header(request: GatewayRequest) -> str | None:
    """The key as DeepL's clients send it, or as a token."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return _bare(key.strip()) if scheme.lower() == _SCHEME else request.bearer


def _bare(key: str | None) -> str | None:
    return (key or "").removesuffix(_FREE) or None


def _trace(request: GatewayRequest) -> dict[str, str]:
    """The header by which DeepL's answers are told apart."""
    return {"X-Trace-ID": str(request.scope.get("request_id") or uuid.uuid4().hex)}


def _glossary_id(request: GatewayRequest) -> str:
    glossary_id: str = request.path_params["glossary_id"]
    return glossary_id


def _document_id(request: GatewayRequest, fields: Fields) -> str:
    """The id of a document that a path names.

    Raises:
        NotFound: the request does not have its key.
    """
    job_id = str(request.path_params["document_id"]).lower()
    documents.check_key(job_id, needed(fields, "document_key"))
    return job_id


def _dictionary(glossary: Glossary, source: str, target: str) -> Dictionary:
    """A dictionary of a glossary.

    Raises:
        NotFound: it has none of that direction.
    """
    if (found := glossaries.find_dictionary(glossary, source, target)) is None:
        raise NotFound(f"The glossary has no dictionary from {source} to {target}")
    return found


def _time(when: Any) -> str:
    return str(when.strftime("%Y-%m-%dT%H:%M:%SZ"))

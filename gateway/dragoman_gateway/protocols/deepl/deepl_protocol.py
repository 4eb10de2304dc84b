"""DeepL's protocol, `/v2` and `/v3`: endpoints, formats and errors.

Fields may be JSON, a form or in the query, with any method: DeepL's Python client sends a form with
GET.

Source: https://github.com/DeepLcom/openapi, and DeepL's clients, which use undocumented fields too
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.responses import Response

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import (
    GatewayError,
    InvalidInput,
    KeyMissing,
    NotFound,
    QuotaUsedUp,
    UnknownFormat,
)
from dragoman_gateway.protocols.deepl import deepl_languages as codes
from dragoman_gateway.protocols.deepl.deepl_memories import FILES, Memories
from dragoman_gateway.protocols.deepl.deepl_options import (
    Call,
    needed,
    text_options,
    translation_direction,
)
from dragoman_gateway.protocols.deepl.deepl_storing import Documents, Glossaries
from dragoman_gateway.protocols.deepl.deepl_texts import translate_texts
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.texts.languages import Languages
from dragoman_gateway.web.endpoints import Endpoint
from dragoman_gateway.web.fields import Fields
from dragoman_gateway.web.late_answers import late_answer
from dragoman_gateway.web.requests import GatewayRequest
from dragoman_gateway.web.responses import error_headers, json_response

Answer = Callable[[Call], Awaitable[Response]]

_SCHEME = "deepl-auth-key"
_FREE = ":fx"
"""Suffix of the keys of DeepL's free accounts, by which its clients choose a server."""
_NO_LIMIT = 1_000_000_000_000
"""DeepL's value for an unlimited number of characters."""
_QUOTA_EXCEEDED = 456
_FEATURES = {
    "translate_text": ("auto_detection", "glossary"),
    "translate_document": ("auto_detection", "glossary"),
    "glossary": (),
}
"""Features by resource of /v3/languages."""
_NOT_OFFERED = {
    "/v2/admin": "administration of keys: use `dragoman keys`",
    "/v2/write": "rephrasing and correction: a translation model cannot do this",
    "/v3/style_rules": "style rules: a translation model does not support them",
    "/v3/voice": "speech",
}


class DeepLProtocol:
    """See `ProtocolPackage`."""

    name = "deepl"
    takes_keys_in_bodies = False  # DeepL removed this in 2026; short bodies may still have a key

    def __init__(self, gateway: Gateway) -> None:
        """Make the endpoints."""
        self._gateway = gateway
        glossaries, documents = Glossaries(gateway), Documents(gateway)
        self._memories = memories = Memories(gateway, _key_of_request)
        memory = "/v3/translation_memories"
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
            self._endpoint("GET", "/v2/glossary-language-pairs", glossaries.directions),
            self._endpoint("POST", "/v2/glossaries", glossaries.create_single),
            self._endpoint("GET", "/v2/glossaries", glossaries.list_single),
            self._endpoint("GET", f"/v2{glossary}", glossaries.get_single),
            self._endpoint("DELETE", f"/v2{glossary}", glossaries.delete_glossary),
            self._endpoint("GET", f"/v2{glossary}/entries", glossaries.entries_of_single),
            self._endpoint("POST", "/v3/glossaries", glossaries.create_glossary),
            self._endpoint("GET", "/v3/glossaries", glossaries.list_glossaries),
            self._endpoint("GET", f"/v3{glossary}", glossaries.get_glossary),
            self._endpoint("PATCH", f"/v3{glossary}", glossaries.patch_glossary),
            self._endpoint("DELETE", f"/v3{glossary}", glossaries.delete_glossary),
            self._endpoint("GET", f"/v3{glossary}/entries", glossaries.entries),
            self._endpoint("PUT", f"/v3{glossary}/dictionaries", glossaries.put_dictionary),
            self._endpoint("DELETE", f"/v3{glossary}/dictionaries", glossaries.delete_dictionary),
            self._endpoint("GET", memory, memories.all),
            self._endpoint("POST", f"{memory}/import", memories.begin_import),
            self._endpoint("GET", f"{memory}/jobs/{{job_id}}", memories.job),
            self._file_endpoint("PUT", memories.upload, reads_body=True),
            self._file_endpoint("GET", memories.download),
            self._endpoint("GET", f"{memory}/{{memory_id}}", memories.get),
            self._endpoint("DELETE", f"{memory}/{{memory_id}}", memories.delete),
            self._endpoint("GET", f"{memory}/{{memory_id}}/segments", memories.segments),
            self._endpoint("POST", f"{memory}/{{memory_id}}/export", memories.begin_export),
            self._endpoint("POST", "/v2/document", documents.upload, reads_body=True),
            self._endpoint("POST", "/v2/document/{document_id}", documents.status),
            self._endpoint("POST", "/v2/document/{document_id}/result", documents.result),
        )

    def is_for(self, path: str) -> bool:
        """See `ProtocolPackage`."""
        return path.startswith(("/v2/", "/v3/"))

    def key_of(self, request: GatewayRequest) -> str | None:
        """See `ProtocolPackage`."""
        path = request.scope["path"]
        return self._memories.key_of_file(path) or _key_of_request(request)

    def refuse(self, request: GatewayRequest, error: GatewayError) -> Response:
        """See `ProtocolPackage`."""
        message = str(error)
        if isinstance(error, NotFound):
            path = request.scope["path"]
            for begin, what in _NOT_OFFERED.items():
                if path == begin or path.startswith(f"{begin}/"):
                    message = f"Not offered here: {what}"
        statuses = {KeyMissing: 403, QuotaUsedUp: _QUOTA_EXCEEDED, UnknownFormat: 400}
        status = statuses.get(type(error), error.status)
        headers = error_headers(error) | _trace(request)
        return json_response({"message": message}, status, headers)

    def _endpoint(
        self, method: str, path: str, answer: Answer, reads_body: bool = False
    ) -> Endpoint:
        """Returns an endpoint whose handler gets the fields and the caller."""
        # These count as requests, but have no characters.
        is_free = "/glossaries" in path or "/translation_memories" in path

        async def handle(request: GatewayRequest) -> Response:
            key = _key_of_header(request)
            access = self._gateway.access
            caller = None
            if key is not None:  # before a body is parsed
                caller = await request.identify(access, key, self.name)
            fields = Fields(await request.read_fields())
            if caller is None:
                key = _bare(fields.text("auth_key"))
                caller = await request.identify(access, key, self.name)
            call = Call(request, fields, caller)
            if is_free:
                async with access.admitted(caller, 0):
                    response = await answer(call)
            else:
                response = await answer(call)
            response.headers.update(_trace(request))
            return response

        return Endpoint(method, path, handle, reads_body)

    def _file_endpoint(
        self,
        method: str,
        answer: Callable[[GatewayRequest, Caller], Awaitable[Response]],
        reads_body: bool = False,
    ) -> Endpoint:
        """Returns an endpoint for files of memories; their URLs have a secret in place of a key."""

        async def handle(request: GatewayRequest) -> Response:
            caller = await request.identify(self._gateway.access, self.key_of(request), self.name)
            return await answer(request, caller)

        return Endpoint(method, f"{FILES}{{secret}}", handle, reads_body)

    async def _served(self) -> Languages:
        return await self._gateway.translations.languages()

    async def _translate(self, call: Call) -> Response:
        return await late_answer(self._translations_of(call.fields, call.caller))

    async def _translations_of(self, fields: Fields, caller: Caller) -> Response:
        if not (texts := fields.texts("text")):
            raise InvalidInput("Parameter 'text' not specified.")
        source, target = translation_direction(fields, await self._served())
        how = text_options(fields, needed(fields, "target_lang"))
        translated = await translate_texts(self._gateway, caller, texts, source, target, how)
        translations = []
        for text, translation in zip(texts, translated, strict=True):
            written: dict[str, Any] = {
                "detected_source_language": codes.written(translation.source.language),
                "text": translation.text,
            }
            if how.shows_billed_characters:
                written["billed_characters"] = len(text)
            if how.model_type_used:
                written["model_type_used"] = how.model_type_used
            translations.append(written)
        return json_response({"translations": translations})

    async def _languages(self, call: Call) -> Response:
        languages = await self._served()
        kind = call.fields.text("type") or "source"
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

    async def _languages_of_resource(self, call: Call) -> Response:
        resource = needed(call.fields, "resource")
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

    async def _resources(self, _call: Call) -> Response:
        sides = {
            "auto_detection": {"needs_source_support": True},
            "glossary": {"needs_source_support": True, "needs_target_support": True},
        }
        return json_response(
            [
                {
                    "name": name,
                    "features": [{"name": feature} | sides[feature] for feature in features],
                }
                for name, features in _FEATURES.items()
            ]
        )

    async def _usage(self, call: Call) -> Response:
        usage = await self._gateway.access.usage(call.caller)
        limit = _NO_LIMIT if usage.characters_limit is None else usage.characters_limit
        return json_response(
            {
                "character_count": usage.characters,
                "character_limit": limit,
                "start_time": _time(usage.begin),
                "end_time": _time(usage.end),
            }
        )


def _key_of_request(request: GatewayRequest) -> str | None:
    """Returns the key in the headers or the query."""
    return _key_of_header(request) or _bare(request.query_params.get("auth_key"))


def _key_of_header(request: GatewayRequest) -> str | None:
    """Returns the key in DeepL's header, or in a bearer token."""
    scheme, _, key = request.header(b"authorization").partition(" ")
    return _bare(key.strip()) if scheme.lower() == _SCHEME else request.bearer


def _bare(key: str | None) -> str | None:
    return (key or "").removesuffix(_FREE) or None


def _trace(request: GatewayRequest) -> dict[str, str]:
    """Returns the header that identifies an answer, as in DeepL's answers."""
    return {"X-Trace-ID": str(request.scope.get("request_id") or uuid.uuid4().hex)}


def _time(when: Any) -> str:
    return str(when.strftime("%Y-%m-%dT%H:%M:%SZ"))

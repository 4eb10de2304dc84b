"""The tools and resources of the Model Context Protocol."""

from __future__ import annotations

import asyncio
import base64
import binascii
import mimetypes
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from dragoman_client import Translation
from dragoman_options.table import AUTO
from msgspec import Meta

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import InvalidInput, NotFound, TooLarge
from dragoman_gateway.jobs.job import Job
from dragoman_gateway.reader.marked import TextForm
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.texts.languages import name_of
from dragoman_gateway.texts.marked_texts import check_marked_options

SCHEME = "dragoman://documents/"
_WAIT_S = 20.0
"""How long a call waits for a document; many clients stop waiting after 30 s."""
_MOST_INLINE_BYTES = 64 << 10
"""Size of a translated document up to which it is in the result, beside its link."""
_MOST_READ_BYTES = 8 << 20

_Target = Annotated[str, Meta(description="language to translate into: a code or an English name")]
_Source = Annotated[str, Meta(description="language of the text; auto detects it")]
_Ids = Annotated[
    list[str], Meta(description="ids of stored glossaries, from list_glossaries; first wins")
]


class TranslateText(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `translate_text`."""

    text: Annotated[str | list[str], Meta(description="a text, or several")]
    target_language: _Target
    source_language: _Source = AUTO
    format: Annotated[
        Literal["text", "html", "xml"], Meta(description="html and xml keep the tags of the text")
    ] = "text"
    glossary: Annotated[
        dict[str, str], Meta(description="required translations of terms, by term")
    ] = {}
    glossary_ids: _Ids = []


class TranslateDocument(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `translate_document`."""

    file_name: Annotated[str, Meta(description="name of the document; its extension is the format")]
    target_language: _Target
    content: Annotated[str, Meta(description="the document, if it is text")] = ""
    content_base64: Annotated[str, Meta(description="the document in base64, if it is not")] = ""
    source_language: _Source = AUTO
    glossary_ids: _Ids = []


class NoArguments(msgspec.Struct, forbid_unknown_fields=True):
    """No arguments."""


Result = dict[str, Any]


@dataclass(frozen=True)
class Tool:
    """A tool.

    Attributes:
        name: its name.
        description: what it does, for the model that calls it.
        shape: its arguments.
        call: runs it.
        reads_only: whether it changes nothing.
    """

    name: str
    description: str
    shape: type[msgspec.Struct]
    call: Callable[[Caller, Any], Awaitable[Result]]
    reads_only: bool = True

    @property
    def described(self) -> Result:
        """The tool as in the answer to `tools/list`."""
        _, components = msgspec.json.schema_components([self.shape])
        (schema,) = components.values()
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": {**schema, "title": self.name},
            "annotations": {"readOnlyHint": self.reads_only, "openWorldHint": False},
        }


class Tools:
    """The tools, and the translated documents as resources."""

    def __init__(self, gateway: Gateway) -> None:
        """Make the table of tools."""
        self._gateway = gateway
        formats = ", ".join(gateway.jobs.formats)
        tools = (
            Tool(
                "translate_text",
                "Translate one text or several. Numbers, addresses and placeholders are kept, with "
                "the format html or xml the tags too.",
                TranslateText,
                self._translate_text,
            ),
            Tool(
                "translate_document",
                f"Translate a document with one of these extensions: {formats}. The result links "
                "to the translated document, which can be read as a resource; a short text is in "
                "the result too.",
                TranslateDocument,
                self._translate_document,
                reads_only=False,
            ),
            Tool(
                "list_languages",
                "List the languages, each with those that it is translated into.",
                NoArguments,
                self._list_languages,
            ),
            Tool(
                "list_glossaries",
                "List the stored glossaries, whose ids translate_text and translate_document take.",
                NoArguments,
                self._list_glossaries,
            ),
        )
        self.by_name: Mapping[str, Tool] = {tool.name: tool for tool in tools}

    async def _languages(self, source: str, target: str) -> dict[str, Any]:
        languages = await self._gateway.translations.languages()
        source = source.lower() if source.lower() == AUTO else source
        if source != AUTO:
            source = languages.find_named(source, languages.sources, "source_language")
        target = languages.find_named(target, languages.targets, "target_language")
        return {"source_language": source, "target_language": target}

    async def _translate_text(self, caller: Caller, given: TranslateText) -> Result:
        gateway, texts = self._gateway, given.text
        texts = [texts] if isinstance(texts, str) else texts
        options = await self._languages(given.source_language, given.target_language)
        if given.glossary:
            options["glossary"] = given.glossary
        if given.glossary_ids:
            options["glossary_ids"] = given.glossary_ids
        if given.format == "text":
            translations = await gateway.translations.translate(caller, texts, options)
        else:
            check_marked_options(options, f"format {given.format}")
            source = options["source_language"]
            translations = await gateway.marked.translate(
                caller,
                texts,
                TextForm(given.format, None if source == AUTO else source),
                options,
            )
        return {
            "content": [_text(translation.text) for translation in translations],
            "structuredContent": {"translations": list(map(_written, translations))},
        }

    async def _translate_document(self, caller: Caller, given: TranslateDocument) -> Result:
        options = await self._languages(given.source_language, given.target_language)
        if given.glossary_ids:
            options["glossary_ids"] = given.glossary_ids
        content = _content(given)
        upload = self._gateway.jobs.upload()
        try:
            await asyncio.to_thread(upload.write, content)
            await asyncio.to_thread(upload.seek, 0)
            job = await self._gateway.jobs.submit(caller, given.file_name, upload, options)
        finally:
            await asyncio.to_thread(upload.close)
        job = await self._gateway.jobs.get(caller, job.id, _WAIT_S)
        if job.error is not None:
            raise job.error
        parts = [{"type": "resource_link", **_resource(job)}]
        if job.state == "done":
            path = await self._gateway.jobs.result(caller, job.id)
            if path.stat().st_size <= _MOST_INLINE_BYTES:
                translated = await asyncio.to_thread(path.read_bytes)
                if (text := _decoded(translated)) is not None:
                    parts.append(_text(text))
        state = {"uri": SCHEME + job.id, "state": job.state, "characters": job.characters}
        return {"content": parts, "structuredContent": state}

    async def _list_languages(self, _caller: Caller, _given: NoArguments) -> Result:
        languages = await self._gateway.translations.languages()
        rows = [
            {"code": code, "name": name_of(code), "targets": languages.targets_of(code)}
            for code in languages.codes
        ]
        return _structured({"languages": rows})

    async def _list_glossaries(self, caller: Caller, _given: NoArguments) -> Result:
        async with self._gateway.access.admitted(caller, 0):
            glossaries = await self._gateway.glossaries.all(caller)
        rows = [
            {
                "id": glossary.id,
                "name": glossary.name,
                "directions": [
                    {
                        "source_language": dictionary.source_language,
                        "target_language": dictionary.target_language,
                        "terms": dictionary.entry_count,
                    }
                    for dictionary in glossary.dictionaries
                ],
            }
            for glossary in glossaries
        ]
        return _structured({"glossaries": rows})

    async def resources(self, caller: Caller) -> list[Result]:
        """Returns the caller's translated documents."""
        jobs = await self._gateway.jobs.all(caller)
        return [_resource(job) for job in jobs if job.state == "done"]

    async def read(self, caller: Caller, uri: str) -> list[Result]:
        """Returns the content of a translated document.

        Raises:
            NotFound: there is no such document.
            Unavailable: it is not translated yet.
            TooLarge: it is too large for this protocol.
        """
        if not uri.startswith(SCHEME):
            raise NotFound(f"there is no resource {uri[:100]!r}: give one of {SCHEME}ID")
        job_id = uri.removeprefix(SCHEME)
        job = await self._gateway.jobs.get(caller, job_id, _WAIT_S)
        path = await self._gateway.jobs.result(caller, job_id)
        if path.stat().st_size > _MOST_READ_BYTES:
            raise TooLarge(
                f"the document has more than {_MOST_READ_BYTES >> 20} MiB: read it at "
                f"/api/v1/documents/{job_id}/result"
            )
        content = await asyncio.to_thread(path.read_bytes)
        part: Result = {"uri": uri, "mimeType": _media_type(job)}
        if (text := _decoded(content)) is not None:
            return [{**part, "text": text}]
        return [{**part, "blob": base64.b64encode(content).decode()}]


def _content(given: TranslateDocument) -> bytes:
    if bool(given.content) == bool(given.content_base64):
        raise InvalidInput("give either content or content_base64")
    if given.content:
        return given.content.encode("utf-8", "replace")
    try:
        return base64.b64decode(given.content_base64, validate=True)
    except binascii.Error as error:
        raise InvalidInput(f"content_base64 is not base64: {error}") from error


def _written(translation: Translation) -> Result:
    fields: Result = {"text": translation.text}
    if translation.detected_language:
        fields["detected_language"] = translation.detected_language
    if translation.warnings:
        fields["warnings"] = list(translation.warnings)
    return fields


def _text(text: str) -> Result:
    return {"type": "text", "text": text}


def _structured(value: Result) -> Result:
    """Returns a result with its JSON as text too, for clients that read only that."""
    return {
        "content": [_text(msgspec.json.encode(value).decode())],
        "structuredContent": value,
    }


def _resource(job: Job) -> Result:
    return {"uri": SCHEME + job.id, "name": job.file_name, "mimeType": _media_type(job)}


def _media_type(job: Job) -> str:
    return mimetypes.guess_type(job.file_name)[0] or "application/octet-stream"


def _decoded(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def arguments(tool: Tool, given: Any) -> msgspec.Struct:
    """Converts the arguments of a call.

    Raises:
        InvalidInput: they do not have the tool's shape; the message names the argument.
    """
    try:
        return msgspec.convert({} if given is None else given, tool.shape)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{tool.name}: {error}") from error

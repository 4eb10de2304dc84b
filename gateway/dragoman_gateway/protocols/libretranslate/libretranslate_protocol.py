"""LibreTranslate's protocol at the root: endpoints, formats, errors; and DeepLX's `/translate`.

As in LibreTranslate, a request is JSON, or a form combined with the query, with any method.

Source: https://docs.libretranslate.com/api/
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from dragoman_options.languages import fold_language
from dragoman_options.table import AUTO
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import (
    DeadlineExceeded,
    GatewayError,
    Internal,
    InvalidInput,
    KeyMissing,
    KeyRefused,
    NotFound,
    QuotaUsedUp,
    TooManyRequests,
)
from dragoman_gateway.jobs.job import Job
from dragoman_gateway.protocols.libretranslate.alternatives import Candidates, best_translations
from dragoman_gateway.protocols.libretranslate.specification import specification
from dragoman_gateway.reader.marked import TextForm
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.texts.languages import name_of
from dragoman_gateway.texts.marked_texts import (
    MarkedText,
    MarkedTexts,
)
from dragoman_gateway.texts.sources import (
    TextLanguage,
    options_of_source,
    sources_of,
    translate_by_source,
)
from dragoman_gateway.texts.translations import MOST_DETECTED
from dragoman_gateway.web.downloads import file_response
from dragoman_gateway.web.endpoints import Endpoint
from dragoman_gateway.web.fields import Fields
from dragoman_gateway.web.requests import (
    JSON,
    MULTIPART,
    GatewayRequest,
    public_url,
    upload_of,
    while_connected,
)
from dragoman_gateway.web.responses import error_headers, json_response

_DOWNLOADS = "/download_file/"
_ALIASES = {"pb": "pt-BR", "zh": "zh-Hans", "zt": "zh-Hant", "iw": "he"}
"""LibreTranslate's current and former codes of other languages."""
_WAIT_S = 20.0
"""How long one request for the state of a document waits."""
_MOST_WAIT_S = 300.0
"""Maximum time to wait for a document; our proxies wait a little longer."""
_FRONTEND_TIMEOUT_MS = 500
"""Time after the last keystroke until LibreTranslate's page translates."""
_NO_LIMIT = -1


@dataclass(frozen=True)
class _Direction:
    """The languages of a request, and its glossaries.

    Attributes:
        source: code of the source language; None: detect it.
        target: code of the target language.
        options: `glossary_ids` in order of precedence, if there are any.
    """

    source: str | None
    target: str
    options: Mapping[str, Any] = field(default_factory=dict)


class LibreTranslateProtocol:
    """See `ProtocolPackage`."""

    name = "libretranslate"
    takes_keys_in_bodies = True

    def __init__(self, gateway: Gateway) -> None:
        """Make the endpoints."""
        self._gateway = gateway
        self._translations = gateway.translations
        self.endpoints = (
            Endpoint("POST", "/translate", self._translate),
            Endpoint("POST", "/detect", self._detect),
            Endpoint("GET", "/languages", self._languages),
            Endpoint("GET", "/frontend/settings", self._frontend_settings),
            Endpoint("POST", "/translate_file", self._translate_file, reads_body=True),
            Endpoint("GET", _DOWNLOADS + "{name}", self._download_file),
            Endpoint("POST", "/suggest", self._suggest),
            Endpoint("GET", "/health", self._health),
            Endpoint("GET", "/spec", self._specification),
        )
        self._paths = {endpoint.path for endpoint in self.endpoints}

    def is_for(self, path: str) -> bool:
        """See `ProtocolPackage`."""
        return path in self._paths or path.startswith(_DOWNLOADS)

    def key_of(self, request: GatewayRequest) -> str | None:
        """See `ProtocolPackage`."""
        return request.query_params.get("api_key") or request.bearer

    def refuse(self, _request: GatewayRequest, error: GatewayError) -> Response:
        """See `ProtocolPackage`."""
        status, message = _refusal(error)
        return json_response({"error": message}, status, error_headers(error))

    async def _translate(self, request: GatewayRequest) -> Response:
        fields = Fields(await request.read_fields())
        if fields.get("q") is None and fields.get("text") is not None:
            return await self._translate_as_deeplx(request, fields)
        caller = await self._caller(request, fields)
        given = _needed(fields, "q")
        texts = fields.texts("q") or []
        if request.media_type != JSON:  # a form, in which browsers write \r\n
            texts = [text.replace("\r\n", "\n") for text in texts]
        direction = await self._direction(fields)
        others = fields.whole_number("alternatives") or 0
        form = await self._check(fields, texts, others, caller)
        if form == "html":
            sources, translated = await self._translated_pages(caller, texts, direction)
        else:
            sources, translated = await self._translated(caller, texts, direction, max(others, 0))
        is_list = isinstance(given, list)
        answer: dict[str, Any] = {
            "translatedText": _each([candidates.best for candidates in translated], is_list)
        }
        if direction.source is None:
            answer["detectedLanguage"] = _each([_detected(source) for source in sources], is_list)
        if others > 0:
            answer["alternatives"] = _each(
                [candidates.others for candidates in translated], is_list
            )
        return json_response(answer)

    async def _translate_as_deeplx(self, request: GatewayRequest, fields: Fields) -> Response:
        """Answer `{"text", "source_lang"?, "target_lang"}` like the project DeepLX."""
        try:
            caller = await self._caller(request, fields)
            text = fields.text("text") or ""
            source = await self._language(fields.text("source_lang") or AUTO)
            if (target := await self._language(_needed(fields, "target_lang"))) is None:
                raise InvalidInput("target_lang is not supported")
            direction = _Direction(source, target)
            sources, (candidates,) = await self._translated(caller, [text], direction, 0)
        except GatewayError as error:
            status, message = _refusal(error)
            return json_response({"code": status, "message": message}, status, error_headers(error))
        (src,) = sources
        return json_response(
            {
                "code": 200,
                "data": candidates.best,
                "source_lang": src.language.upper(),
                "target_lang": target.upper(),
            }
        )

    async def _translated(
        self, caller: Caller, texts: list[str], direction: _Direction, others: int
    ) -> tuple[list[TextLanguage], list[Candidates]]:
        async def translate(these: Sequence[str], src: str) -> list[Candidates]:
            options = await self._options(caller, direction, src)
            if others:
                return await best_translations(self._translations, caller, these, options, others)
            translations = await self._translations.translate_admitted(caller, these, options)
            return [Candidates(translation.text) for translation in translations]

        async with self._gateway.access.admitted(caller, sum(map(len, texts))):
            sources = await self._sources(texts, direction)
            translated = await translate_by_source(
                texts, sources, direction.target, translate, Candidates
            )
        return sources, translated

    async def _translated_pages(
        self, caller: Caller, texts: list[str], direction: _Direction
    ) -> tuple[list[TextLanguage], list[Candidates]]:
        """`_translated` for HTML, without alternatives."""
        form = TextForm("html", direction.source)
        marked_texts = MarkedTexts(self._gateway.readers, self._translations, caller, form)

        async def translate(these: Sequence[MarkedText], src: str) -> list[Candidates]:
            options = await self._options(caller, direction, src)
            translations = await marked_texts.translate(these, options)
            return [Candidates(translation.text) for translation in translations]

        async with self._gateway.access.admitted(caller, sum(map(len, texts))):
            marked = await marked_texts.read(texts)
            sources = await self._sources([text.words for text in marked], direction)
            translated = await translate_by_source(
                marked, sources, direction.target, translate, lambda text: Candidates(text.written)
            )
        return sources, translated

    async def _sources(self, texts: Sequence[str], direction: _Direction) -> list[TextLanguage]:
        return await sources_of(
            self._translations, texts, direction.source, direction.target, "source"
        )

    async def _options(self, caller: Caller, direction: _Direction, src: str) -> dict[str, Any]:
        return await options_of_source(
            self._gateway.glossaries,
            caller,
            direction.options,
            src,
            direction.target,
            is_detected=direction.source is None,
        )

    async def _check(self, fields: Fields, texts: list[str], others: int, caller: Caller) -> str:
        """Check a request, and return the format of the texts."""
        form = fields.text("format") or "text"
        if form not in ("text", "html"):
            raise InvalidInput(f"{form[:40]} format is not supported")
        if others > 0:
            most = int((await self._translations.info()).limits["max_beam_width"]) - 1
            if others > most:
                raise InvalidInput(f"alternatives parameter must be <= {most}")
        longest, limit = max(map(len, texts), default=0), caller.limits.characters_per_request
        if limit is not None and longest > limit:
            raise InvalidInput(f"request ({longest}) exceeds text limit ({limit})")
        return form

    async def _detect(self, request: GatewayRequest) -> Response:
        fields = Fields(await request.read_fields())
        caller = await self._caller(request, fields)
        _needed(fields, "q")
        text = " ".join(fields.texts("q") or ())[:MOST_DETECTED]
        async with self._gateway.access.admitted(caller, 0):
            return await self._detected(text)

    async def _detected(self, text: str) -> Response:
        if not any(map(str.isalpha, text)):
            languages = (await self._translations.languages()).sources
            undecided = "en" if "en" in languages else languages[0]
            return json_response([_detected(TextLanguage(undecided, 0.0))])
        detected = await self._translations.detect(text)
        return json_response([_detected(TextLanguage(detected.language, detected.probability))])

    async def _languages(self, _request: GatewayRequest) -> Response:
        languages = await self._translations.languages()
        return json_response(
            [
                {
                    "code": code,
                    "name": name_of(code),
                    "targets": sorted({code, *languages.targets_of(code)}),
                }
                for code in languages.sources
            ]
        )

    async def _frontend_settings(self, request: GatewayRequest) -> Response:
        access, limit = self._gateway.access, None
        if needs_no_key := await access.needs_no_key():
            caller = await access.caller(None, self.name, request.address)
            limit = caller.limits.characters_per_request
        target = (await self._translations.languages()).targets[-1]
        return json_response(
            {
                "apiKeys": not await access.is_open(),
                "charLimit": _NO_LIMIT if limit is None else limit,
                "filesTranslation": True,
                "frontendTimeout": _FRONTEND_TIMEOUT_MS,
                "keyRequired": not needs_no_key,
                "language": {
                    "source": {"code": AUTO, "name": "Auto Detect"},
                    "target": {"code": target, "name": name_of(target)},
                },
                "suggestions": False,
                "supportedFilesFormat": list(self._gateway.jobs.formats),
            }
        )

    async def _translate_file(self, request: GatewayRequest) -> Response:
        if request.media_type != MULTIPART:
            raise InvalidInput("send the file in multipart/form-data")
        fields = Fields(await request.read_fields())
        caller = await self._caller(request, fields)
        _needed(fields, "file")
        file = fields.file("file")
        assert file is not None
        direction = await self._direction(fields)
        if not file.filename:
            raise InvalidInput("empty file")
        options = {
            **direction.options,
            "source_language": direction.source or AUTO,
            "target_language": direction.target,
        }
        jobs = self._gateway.jobs
        submitting = jobs.submit(
            caller, file.filename, upload_of(file), options, source_field="source"
        )
        job = await while_connected(request.receive, submitting)
        await request.close()  # the job keeps the file
        try:
            async with asyncio.timeout(_MOST_WAIT_S):
                job = await while_connected(request.receive, self._ended(caller, job))
        except (TimeoutError, ClientDisconnect, asyncio.CancelledError) as error:
            # Nobody else knows the job's id.
            with contextlib.suppress(NotFound):
                await jobs.delete(caller, job.id)
            if isinstance(error, TimeoutError):
                raise DeadlineExceeded(
                    f"the document was not translated within {_MOST_WAIT_S:g} s: send a shorter one"
                ) from None
            raise
        if job.state != "done":
            raise job.error or Internal("the translation was cancelled")
        # Anyone with the link may download the file, with or without a key, as with LibreTranslate.
        owner = f"_{caller.owner}" if caller.owner else ""
        name = f"{_DOWNLOADS}{job.id}{owner}.{quote(job.file_name, safe='')}"
        return json_response(
            {"translatedFileUrl": public_url(request, self._gateway.settings) + name}
        )

    async def _ended(self, caller: Caller, job: Job) -> Job:
        while job.state in ("queued", "translating"):
            job = await self._gateway.jobs.get(caller, job.id, _WAIT_S)
        return job

    async def _download_file(self, request: GatewayRequest) -> Response:
        job_id, _, owner = request.path_params["name"].partition(".")[0].partition("_")
        caller = Caller(owner or "anonymous", owner or None)
        job = await self._gateway.jobs.get(caller, job_id)
        path = await self._gateway.jobs.result(caller, job_id)
        return await file_response(path, job.file_name)

    async def _suggest(self, _request: GatewayRequest) -> Response:
        return json_response({"error": "Suggestions are disabled on this server."}, 403)

    async def _health(self, _request: GatewayRequest) -> Response:
        is_ready = False
        with contextlib.suppress(GatewayError):
            is_ready = await self._translations.is_ready()
        return json_response(
            {"status": "ok" if is_ready else "unavailable"}, 200 if is_ready else 503
        )

    async def _specification(self, request: GatewayRequest) -> Response:
        settings = self._gateway.settings
        title = "LibreTranslate" if settings.libretranslate_title else "Dragoman"
        return json_response(specification(title, public_url(request, settings)))

    async def _caller(self, request: GatewayRequest, fields: Fields) -> Caller:
        key = fields.text("api_key") or request.bearer
        return await request.identify(self._gateway.access, key, self.name)

    async def _direction(self, fields: Fields) -> _Direction:
        source = await self._language(_needed(fields, "source"))
        if (target := await self._language(_needed(fields, "target"))) is None:
            raise InvalidInput(f"{AUTO} is not supported")
        ids = fields.listed("glossary_ids")
        return _Direction(source, target, {"glossary_ids": ids} if ids else {})

    async def _language(self, written: Any) -> str | None:
        """Returns the code of a language; None for `auto`."""
        if not isinstance(written, str):
            raise InvalidInput("a language is a text, such as en")
        if written == AUTO:
            return None
        codes = (await self._translations.languages()).codes
        for name in (written, _ALIASES.get(written.lower(), "")):
            if code := fold_language(name, codes):
                return code
        raise InvalidInput(f"{written[:40]} is not supported")


def _refusal(error: GatewayError) -> tuple[int, str]:
    """Returns status and message of an error.

    Clients depend on them: Mastodon interprets 403 as a used-up quota and 429 as too many requests;
    Dialect recognizes a missing key by the message.
    """
    message = str(error)
    match error:
        case KeyMissing():
            return 400, "Please contact the server operator to get an API key"
        case KeyRefused():
            return 403, f"Invalid API key: {message}"
        case QuotaUsedUp():
            return 403, message
        case TooManyRequests():
            return 429, f"Slowdown: {message}"
        case InvalidInput():
            return 400, message if "is not supported" in message else f"Invalid request: {message}"
    return error.status, message


def _needed(fields: Fields, name: str) -> Any:
    value = fields.get(name)
    if value is None or value in ("", []):
        raise InvalidInput(f"missing {name} parameter")
    return value


def _each(values: list[Any], is_list: bool) -> Any:
    """Returns a list for a list of texts, and a single value for a single text."""
    return values if is_list else values[0]


def _detected(source: TextLanguage) -> dict[str, Any]:
    return {"confidence": round(100 * source.probability, 1), "language": source.language}

"""The gRPC calls of NVIDIA Riva and gRPC's health service, in the gateway's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc

from dragoman_gateway.access.shares import Budget
from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import GatewayError, InvalidInput, Unsupported
from dragoman_gateway.protocols.riva import messages
from dragoman_gateway.protocols.riva.phrases import read_phrases, take_marks
from dragoman_gateway.rpc.calls import Calls, metadata_of
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.texts.languages import Languages
from dragoman_gateway.web.fields import Fields

NAME = "riva"
MODEL = "dragoman"
"""Name of the model for all directions; if not every direction is served, prefix of the names of
the models for each source language."""
_MOST_VARIATION = 256
_HEALTH_S = 1.0
"""Time between two health checks for a call of Watch; all calls share one request."""
_MOST_WATCHERS = 100
_UNSERVED = ("StreamingTranslateSpeechToText", "StreamingTranslateSpeechToSpeech")


class RivaService:
    """Answers the calls of Riva's protocol."""

    def __init__(self, gateway: Gateway, calls: Calls) -> None:
        """Store the parts.

        Args:
            gateway: the gateway's core.
            calls: makes the handlers.
        """
        self._gateway, self._calls = gateway, calls
        self._watchers = Budget.of("calls of Watch", _MOST_WATCHERS, gateway.settings)

    @property
    def handlers(self) -> list[Any]:
        """The handlers for a gRPC server."""
        translation = {
            "TranslateText": self._calls.unary(self._translate, messages.TranslateTextRequest),
            "ListSupportedLanguagePairs": self._calls.unary(
                self._languages, messages.AvailableLanguageRequest
            ),
            **{name: grpc.stream_stream_rpc_method_handler(_refuse_speech) for name in _UNSERVED},
        }
        write_health = messages.HealthCheckResponse.SerializeToString
        health = {
            "Check": grpc.stream_unary_rpc_method_handler(self._check, None, write_health),
            "Watch": grpc.stream_stream_rpc_method_handler(self._watch, None, write_health),
        }
        return [
            grpc.method_handlers_generic_handler(messages.TRANSLATION_SERVICE, translation),
            grpc.method_handlers_generic_handler(messages.HEALTH_SERVICE, health),
        ]

    async def _translate(self, request: Any, context: Any, caller: Caller) -> Any:
        languages = await self._gateway.translations.languages()
        _check_model(request.model, languages)
        _check_variation(request.max_len_variation)
        if not request.texts:
            raise InvalidInput("texts: give at least one")
        if not request.target_language:
            raise InvalidInput(f"target_language: give one of {', '.join(languages.targets)}")
        target = languages.find(request.target_language, languages.targets, "target_language")
        options: dict[str, Any] = {"target_language": target, "source_language": "auto"}
        if request.source_language:
            options["source_language"] = languages.find(
                request.source_language, languages.sources, "source_language"
            )
        if ids := Fields(metadata_of(context)).listed("glossary-ids"):
            options["glossary_ids"] = ids
        # Admit before any work: a caller above its limits must not cause even the parsing of tags.
        async with self._gateway.access.admitted(caller, sum(map(len, request.texts))):
            texts, kept = take_marks(request.texts)
            if phrases := {**read_phrases(request.dnt_phrases), **kept}:
                options["glossary"] = phrases
            translations = await self._gateway.translations.translate_admitted(
                caller, texts, options
            )
        response = messages.TranslateTextResponse()
        for translation in translations:
            response.translations.add(
                text=translation.text, language=request.target_language or target
            )
        if request.HasField("id"):
            response.id.CopyFrom(request.id)
        return response

    async def _languages(self, request: Any, _context: Any, _caller: Caller) -> Any:
        languages = await self._gateway.translations.languages()
        pairs = _models(languages)
        if request.model:
            _check_model(request.model, languages)
            pairs = {request.model: pairs[request.model]}
        response = messages.AvailableLanguageResponse()
        for model, (sources, targets) in pairs.items():
            response.languages[model].src_lang.extend(sources)
            response.languages[model].tgt_lang.extend(targets)
        return response

    async def _check(self, received: AsyncIterator[bytes], context: Any) -> Any:
        request = await self._calls.keyless_request(received, context, messages.HealthCheckRequest)
        if request.service not in ("", messages.TRANSLATION_SERVICE):
            message = f"there is no service {request.service[:100]!r}"
            await context.abort(grpc.StatusCode.NOT_FOUND, message)
        return messages.HealthCheckResponse(status=await self._health())

    async def _watch(self, received: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
        request = await self._calls.keyless_request(received, context, messages.HealthCheckRequest)
        client = self._calls.keyless_client(context)
        try:
            self._watchers.hold(client)
        except GatewayError as error:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{error}; or call Check")
        try:
            sent = None
            while not self._gateway.stopping:
                status = await self._health()
                if request.service not in ("", messages.TRANSLATION_SERVICE):
                    status = "SERVICE_UNKNOWN"
                if status != sent:
                    sent = status
                    yield messages.HealthCheckResponse(status=status)
                await asyncio.sleep(_HEALTH_S)
            yield messages.HealthCheckResponse(status="NOT_SERVING")
        finally:
            self._watchers.let_go(client)

    async def _health(self) -> str:
        if self._gateway.stopping or not await self._gateway.translations.is_ready():
            return "NOT_SERVING"
        return "SERVING"


def _models(languages: Languages) -> dict[str, tuple[list[str], list[str]]]:
    """Returns source and target languages by model; a model supports all their combinations."""
    sources, targets = languages.sources, languages.targets
    pairs = {(src, tgt) for src in sources for tgt in targets if src != tgt}
    if pairs == languages.directions:
        return {MODEL: (sources, targets)}
    return {f"{MODEL}-{src}": ([src], languages.targets_of(src)) for src in sources}


def _check_model(model: str, languages: Languages) -> None:
    if model and model not in (known := _models(languages)):
        raise InvalidInput(
            f"there is no model {model[:100]!r}: give {', '.join(known)}, or leave it empty"
        )


def _check_variation(written: str) -> None:
    """Validate the field; it has no effect, since the engine's own limit is always larger."""
    if written and not (
        written.isascii()
        and written.isdigit()
        and len(written) < 20
        and int(written) <= _MOST_VARIATION
    ):
        raise InvalidInput(
            f"max_len_variation {written[:20]!r}: give a whole number up to {_MOST_VARIATION}"
        )


async def _refuse_speech(_requests: Any, context: Any) -> None:
    error = Unsupported("speech is not translated here: send text to TranslateText")
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, str(error))

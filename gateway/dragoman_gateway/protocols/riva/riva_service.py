"""The gRPC calls of NVIDIA Riva and gRPC's health service, in the gateway's event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any

import grpc
from dragoman_options.refusal import Refusal
from google.protobuf.message import DecodeError

from dragoman_gateway.access.record import RequestRecord, begin_record
from dragoman_gateway.access.shares import Budget, client_of
from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import (
    DeadlineExceeded,
    GatewayError,
    InvalidInput,
    SlowUpload,
    Unsupported,
    log_fault,
)
from dragoman_gateway.protocols.riva import messages
from dragoman_gateway.protocols.riva.phrases import read_phrases, take_marks
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.texts.languages import Languages
from dragoman_gateway.web.body_limits import LEAST_BYTES_PER_S
from dragoman_gateway.web.fields import Fields
from dragoman_gateway.web.middleware.request_spans import RequestSpans

_LOG = logging.getLogger(__name__)
NAME = "riva"
MODEL = "dragoman"
"""Name of the model for all directions; if not every direction is served, prefix of the names of
the models for each source language."""
_MOST_VARIATION = 256
_HEALTH_S = 1.0
"""Time between two health checks for a call of Watch; all calls share one request."""
_MOST_WATCHERS = 100
CALLS = 1000
"""Maximum number of concurrent calls; others get RESOURCE_EXHAUSTED."""
MESSAGE_BYTES = 2 << 20
"""Maximum size of a message, which is reserved while the message arrives."""
_HEALTH_BYTES = 16 << 20
"""Maximum memory of the messages to the health service, which needs no key."""
_UNSERVED = ("StreamingTranslateSpeechToText", "StreamingTranslateSpeechToSpeech")
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}
_Observe = Callable[[float, str, RequestRecord], None]
_Answer = Callable[[Any, Any, Caller], Awaitable[Any]]


class RivaService:
    """Answers the calls of Riva's protocol.

    All handlers are those of streams, although a client sends one message: gRPC calls them when the
    metadata has arrived, so the key is checked and memory reserved before the message is read.
    """

    def __init__(
        self, gateway: Gateway, observe: _Observe, spans: RequestSpans | None = None
    ) -> None:
        """Store the parts.

        Args:
            gateway: the gateway's core.
            observe: counts and logs a call, from the result of `Metrics.begin`, its name, and its
                record with the corresponding HTTP status.
            spans: makes the spans of calls; None: no tracing.
        """
        self._gateway, self._observe, self._spans = gateway, observe, spans
        settings = gateway.settings
        self.message_bytes = min(settings.body_bytes, MESSAGE_BYTES)
        self.upload_s = settings.upload_timeout_s + self.message_bytes / LEAST_BYTES_PER_S
        self._calls = Budget.of("concurrent calls", CALLS, settings)
        self._watchers = Budget.of("calls of Watch", _MOST_WATCHERS, settings)
        self._health_bytes = Budget.of(
            "bytes of health checks", _HEALTH_BYTES, settings, self.message_bytes
        )

    @property
    def handlers(self) -> list[Any]:
        """The handlers for a gRPC server."""
        translation = {
            "TranslateText": self._unary(self._translate, messages.TranslateTextRequest),
            "ListSupportedLanguagePairs": self._unary(
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

    def _unary(self, answer: _Answer, request_type: Any) -> Any:
        """Returns a handler that counts and traces calls, and converts errors to gRPC's."""
        call = answer.__name__.strip("_")

        async def respond(received: AsyncIterator[bytes], context: Any) -> bytes:
            caller, address = await self._caller(context), _address(context.peer())
            account = self._gateway.bodies.account(caller, address)
            async with (
                self._call(account.client),
                self._message(received, account.memory, account.client) as message,
            ):
                response = await answer(_parsed(request_type, message), context, caller)
                written: bytes = response.SerializeToString()
                return written

        async def convert(
            received: AsyncIterator[bytes], context: Any, record: RequestRecord
        ) -> Any:
            try:
                async with asyncio.timeout(context.time_remaining()):
                    response = await respond(received, context)
                record.status = 200
                return response
            except TimeoutError:
                record.status = DeadlineExceeded.status
                await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "no answer in time")
            except GatewayError as error:
                record.status = error.status
                await _abort(context, error)
            except Exception as error:
                log_fault(_LOG, f"{NAME} {call}", error)
                record.status = 500
                await context.abort(
                    grpc.StatusCode.INTERNAL, "the request failed: see the server's log"
                )

        async def handle(received: AsyncIterator[bytes], context: Any) -> Any:
            record, began = begin_record(), self._gateway.metrics.begin()
            try:
                with self._span(call, context):
                    return await convert(received, context, record)
            finally:
                self._observe(began, call, record)

        return grpc.stream_unary_rpc_method_handler(handle)

    @asynccontextmanager
    async def _call(self, client: str) -> AsyncGenerator[None, None]:
        """Count a call of a client while it runs."""
        self._calls.hold(client)
        try:
            yield
        finally:
            self._calls.let_go(client)

    @asynccontextmanager
    async def _message(
        self, received: AsyncIterator[bytes], budget: Budget, client: str
    ) -> AsyncGenerator[bytes, None]:
        """Receive the message of a call; its bytes count until the call ends.

        A call waits while its client's other messages arrive, or all memory is reserved.

        Raises:
            SlowUpload: the message did not arrive in time.
            InvalidInput: there is none.
        """
        held = 0
        try:
            try:
                async with asyncio.timeout(self.upload_s):
                    await budget.hold_later(client, self.message_bytes)
                    held = self.message_bytes
                    message = await anext(aiter(received), None)
            except TimeoutError:
                raise SlowUpload(
                    f"the message did not arrive within {self.upload_s:.0f} s"
                ) from None
            if message is None:
                raise InvalidInput("the call has no message")
            budget.let_go(client, held - len(message))
            held = len(message)
            yield message
        finally:
            budget.let_go(client, held)

    def _span(self, call: str, context: Any) -> AbstractContextManager[object]:
        if self._spans is None:
            return nullcontext()
        address = _address(context.peer())
        return self._spans.span(f"{NAME} {call}", NAME, _metadata(context), address)

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
        if ids := Fields(_metadata(context)).listed("glossary-ids"):
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

    async def _caller(self, context: Any) -> Caller:
        metadata = _metadata(context)
        scheme, _, token = metadata.get("authorization", "").partition(" ")
        secret = token.strip() or None if scheme.lower() == "bearer" else None
        caller = await self._gateway.access.caller(secret, NAME, _address(context.peer()))
        return caller.obeying(metadata.get("cache-control", ""))

    async def _check(self, received: AsyncIterator[bytes], context: Any) -> Any:
        request = await self._health_request(received, context)
        if request.service not in ("", messages.TRANSLATION_SERVICE):
            message = f"there is no service {request.service[:100]!r}"
            await context.abort(grpc.StatusCode.NOT_FOUND, message)
        return messages.HealthCheckResponse(status=await self._health())

    async def _watch(self, received: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
        request = await self._health_request(received, context)
        client = client_of(None, _address(context.peer()))
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

    async def _health_request(self, received: AsyncIterator[bytes], context: Any) -> Any:
        client = client_of(None, _address(context.peer()))
        try:
            async with (
                self._call(client),
                self._message(received, self._health_bytes, client) as message,
            ):
                return _parsed(messages.HealthCheckRequest, message)
        except GatewayError as error:
            await _abort(context, error)

    async def _health(self) -> str:
        if self._gateway.stopping or not await self._gateway.translations.is_ready():
            return "NOT_SERVING"
        return "SERVING"


def _parsed(request_type: Any, received: bytes) -> Any:
    try:
        return request_type.FromString(received)
    except DecodeError as error:
        name = request_type.DESCRIPTOR.name
        raise InvalidInput(f"the request is not a valid {name}") from error


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


async def _abort(context: Any, error: GatewayError) -> None:
    trailing: Sequence[tuple[str, str]] = ()
    if error.retry_whole_s is not None:
        trailing = (("retry-after", str(error.retry_whole_s)),)
    elif isinstance(error, InvalidInput):
        trailing = (("refusal", Refusal.of(error).details()),)
    code = _CODES.get(error.status, grpc.StatusCode.INTERNAL)
    await context.abort(code, str(error), trailing)


def _metadata(context: Any) -> dict[str, str]:
    """Returns the metadata of a call."""
    return {name: str(value) for name, value in context.invocation_metadata() or ()}


def _address(peer: str) -> str:
    """Returns the network address in gRPC's name of a client, such as `ipv4:127.0.0.1:4321`."""
    kind, _, rest = peer.partition(":")
    if kind == "ipv4":
        return rest.rpartition(":")[0]
    if kind == "ipv6":
        return rest.rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]")
    return ""

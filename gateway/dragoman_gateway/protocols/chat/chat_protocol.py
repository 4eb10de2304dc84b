"""OpenAI's chat completions, `/v1`: endpoints, formats and errors.

Source: https://platform.openai.com/docs/api-reference/chat; TranslateGemma's model card for the
fields `source_lang_code` and `target_lang_code`
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from dragoman_client import Translation
from starlette.responses import Response

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import (
    GatewayError,
    InvalidInput,
    KeyMissing,
    KeyRefused,
    QuotaUsedUp,
    WrongMediaType,
)
from dragoman_gateway.protocols.chat.tasks import (
    Task,
    UnknownModel,
    model_names,
    read_model,
    read_task,
)
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.web.endpoints import Endpoint
from dragoman_gateway.web.events import EventResponse
from dragoman_gateway.web.fields import Fields
from dragoman_gateway.web.requests import JSON, GatewayRequest
from dragoman_gateway.web.responses import error_headers, json_response

_PREFIX = "/v1"
_DONE = b"data: [DONE]\n\n"
_CODES: Mapping[type[GatewayError], tuple[int, str, str]] = {
    KeyMissing: (401, "invalid_request_error", "invalid_api_key"),
    KeyRefused: (401, "invalid_request_error", "invalid_api_key"),
    QuotaUsedUp: (429, "insufficient_quota", "insufficient_quota"),
    UnknownModel: (404, "invalid_request_error", "model_not_found"),
}
"""Status, type and code of errors for which clients expect others than ours."""


class ChatProtocol:
    """See `ProtocolPackage`."""

    name = "chat"
    takes_keys_in_bodies = False

    def __init__(self, gateway: Gateway) -> None:
        """Make the endpoints."""
        self._gateway, self._translations = gateway, gateway.translations
        self.endpoints = (
            Endpoint("POST", f"{_PREFIX}/chat/completions", self._complete),
            Endpoint("GET", f"{_PREFIX}/models", self._models),
            Endpoint("GET", _PREFIX + "/models/{model:path}", self._model),
        )

    def is_for(self, path: str) -> bool:
        """See `ProtocolPackage`."""
        return path.startswith(f"{_PREFIX}/")

    def key_of(self, request: GatewayRequest) -> str | None:
        """See `ProtocolPackage`."""
        return request.bearer

    def refuse(self, _request: GatewayRequest, error: GatewayError) -> Response:
        """See `ProtocolPackage`."""
        status, _, _ = _kind(error)
        headers = error_headers(error)
        if isinstance(error, QuotaUsedUp):
            headers["x-should-retry"] = "false"  # OpenAI's clients would try again twice
        return json_response(_written(error), status, headers)

    async def _caller(self, request: GatewayRequest) -> Caller:
        return await request.identify(self._gateway.access, request.bearer, self.name)

    async def _models(self, request: GatewayRequest) -> Response:
        await self._caller(request)
        names = model_names(await self._translations.info())
        return json_response({"object": "list", "data": [_model(name) for name in names]})

    async def _model(self, request: GatewayRequest) -> Response:
        await self._caller(request)
        name: str = request.path_params["model"]
        read_model(name, await self._translations.info())
        return json_response(_model(name))

    async def _complete(self, request: GatewayRequest) -> Response:
        caller = await self._caller(request)
        if request.media_type != JSON:
            raise WrongMediaType(f"send a JSON object, with the header Content-Type: {JSON}")
        fields = Fields(request.read_json(dict[str, Any]))
        task = read_task(fields, await self._translations.info())
        answer = _Answer(request.request_id, task)
        if fields.switch("stream"):
            shows_usage = Fields(fields.object("stream_options")).switch("include_usage")
            return EventResponse(
                self._chunks(caller, answer, bool(shows_usage)),
                lambda error: self.refuse(request, error),
                _written,
            )
        return json_response(answer.whole(await self._translated(caller, task)))

    async def _translated(self, caller: Caller, task: Task) -> list[Translation]:
        return await self._translations.translate(caller, task.prompt.texts, task.options)

    async def _chunks(
        self, caller: Caller, answer: _Answer, shows_usage: bool
    ) -> AsyncGenerator[Any, None]:
        """Yields the chunks of a streamed answer; one of several texts comes in one piece."""
        task = answer.task
        if len(task.prompt.texts) == 1 and not task.prompt.is_json:
            parts = self._translations.stream(caller, task.prompt.texts[0], task.options)
            try:
                is_first = True
                async for part in parts:
                    if is_first:
                        yield answer.chunk({"role": "assistant", "content": ""})
                    is_first = False
                    if part.delta:
                        yield answer.chunk({"content": part.delta})
            finally:
                await parts.aclose()
            translations = [part]
        else:
            translations = await self._translated(caller, task)
            text = task.prompt.write([translation.text for translation in translations])
            yield answer.chunk({"role": "assistant", "content": text})
        yield answer.chunk({}, _finish_reason(translations))
        if shows_usage:
            yield answer.chunk(None) | {"usage": _usage(translations)}
        yield _DONE


class _Answer:
    """Writes the answer to a request."""

    def __init__(self, request_id: str, task: Task) -> None:
        self.task = task
        self._head = {
            "id": f"chatcmpl-{request_id}",
            "created": int(time.time()),
            "model": task.model,
        }

    def whole(self, translations: Sequence[Translation]) -> dict[str, Any]:
        text = self.task.prompt.write([translation.text for translation in translations])
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": _finish_reason(translations),
            "logprobs": None,
        }
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [choice],
            "usage": _usage(translations),
        }

    def chunk(
        self, delta: Mapping[str, str] | None, finish_reason: str | None = None
    ) -> dict[str, Any]:
        """Returns a part of the answer; without a delta it has no choice."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return {
            **self._head,
            "object": "chat.completion.chunk",
            "choices": [] if delta is None else [choice],
        }


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "dragoman"}


def _finish_reason(translations: Sequence[Translation]) -> str:
    return (
        "length"
        if any(translation.finish_reason == "length" for translation in translations)
        else "stop"
    )


def _usage(translations: Sequence[Translation]) -> dict[str, int]:
    """Returns the tokens of the texts and of their translations."""
    read = sum(translation.source_tokens or 0 for translation in translations)
    written = sum(translation.output_tokens for translation in translations)
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
    }


def _kind(error: GatewayError) -> tuple[int, str, str]:
    """Returns the status, the type and the code of an error."""
    kind = "server_error" if error.status >= 500 else "invalid_request_error"
    return _CODES.get(type(error), (error.status, kind, error.code))


def _written(error: GatewayError) -> dict[str, Any]:
    _, kind, code = _kind(error)
    param = error.option if isinstance(error, InvalidInput) else None
    return {"error": {"message": str(error), "type": kind, "param": param, "code": code}}

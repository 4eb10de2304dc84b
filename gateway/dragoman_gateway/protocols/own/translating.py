"""Endpoints for texts: translation, streams, detection, alternatives, scores, alignments."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from reprlib import repr as brief
from typing import Any

from dragoman_client import PairScore, Translation
from dragoman_options.table import SCORE, STREAM, TRANSLATE
from msgspec import UNSET
from starlette.responses import Response

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import InvalidInput, TooLarge
from dragoman_gateway.protocols.own.answers import (
    scored_answer,
    stream_event,
    translation_answer,
)
from dragoman_gateway.protocols.own.bodies import Body, read_body
from dragoman_gateway.protocols.own.callers import caller_of
from dragoman_gateway.protocols.own.replies import refusal_of, refuse, reply
from dragoman_gateway.protocols.own.shapes import (
    AlignmentsAnswer,
    AlternativeAnswer,
    AlternativesAnswer,
    AlternativesRequest,
    DetectAnswer,
    DetectionAnswer,
    DetectRequest,
    ScoreAnswer,
    ScoreRequest,
    StreamEvent,
    StreamRequest,
    Texts,
    TranslateAnswer,
    TranslateRequest,
)
from dragoman_gateway.reader.marked import TEXT_FORMATS, TextForm
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.texts.marked_texts import (
    check_marked_options,
)
from dragoman_gateway.web.events import EventResponse
from dragoman_gateway.web.requests import GatewayRequest

_MOST_DETECTED = 1000
_DETECTED_AT_ONCE = 50
"""Detections between two yields to the event loop; each takes 50 us."""
_LEAST_BEAM = 4


class Translating:
    """Endpoints for texts."""

    def __init__(self, gateway: Gateway) -> None:
        """Store the core."""
        self._gateway = gateway

    async def translate(self, request: GatewayRequest) -> Response:
        """Translate a text, or several."""
        caller = await caller_of(self._gateway, request)
        limits = (await self._gateway.translations.info()).limits
        body = read_body(request, TranslateRequest, TRANSLATE, limits)
        translate = self._gateway.translations.translate
        if body.fields.format != "text":
            translate = partial(self._translate_marked, body.fields.format)
        translations = await translate(
            caller,
            _listed(body.fields.text),
            _with_stored(body),
            store=body.fields.store,
        )
        return reply(
            TranslateAnswer(
                [translation_answer(translation) for translation in translations],
                request.request_id,
            )
        )

    async def stream(self, request: GatewayRequest) -> Response:
        """Translate a text and stream the growing translation."""
        caller = await caller_of(self._gateway, request)
        limits = (await self._gateway.translations.info()).limits
        body = read_body(request, StreamRequest, STREAM, limits)
        if body.fields.format != "text":
            raise InvalidInput(
                f"format is {brief(body.fields.format)}: a stream takes text; /translate takes "
                + " and ".join(TEXT_FORMATS)
            )
        return EventResponse(
            self._events(caller, body, request.request_id),
            lambda error: refuse(request, error),
            lambda error: refusal_of(request, error),
        )

    async def detect(self, request: GatewayRequest) -> Response:
        """Detect languages; counts as a request, but uses no characters."""
        caller = await caller_of(self._gateway, request)
        texts = _listed(read_body(request, DetectRequest).fields.text)
        if len(texts) > _MOST_DETECTED:
            raise TooLarge(f"text: {len(texts):,} texts: send up to {_MOST_DETECTED:,}")
        detections = []
        async with self._gateway.access.admitted(caller, 0):
            for index, text in enumerate(texts):
                detected = await self._gateway.translations.detect(text)
                detections.append(DetectionAnswer(detected.language, detected.probability))
                if index % _DETECTED_AT_ONCE == 0:
                    await asyncio.sleep(0)
        return reply(DetectAnswer(detections, request.request_id))

    async def alternatives(self, request: GatewayRequest) -> Response:
        """Complete a translation from a position in several ways."""
        caller = await caller_of(self._gateway, request)
        fields = read_body(request, AlternativesRequest).fields
        limits = (await self._gateway.translations.info()).limits
        most = int(limits["max_beam_width"])
        if not 1 <= fields.count <= most:
            raise InvalidInput(f"count is {fields.count}: give 1 to {most}")
        count = max(fields.count, 2)  # `return_alternatives` needs at least two
        options: dict[str, Any] = {
            "target_language": fields.target_language,
            "beam_width": min(max(count, _LEAST_BEAM), most),
            "num_return_sequences": count,
            "return_alternatives": True,
            "return_scores": True,
        }
        if fields.source_language is not UNSET:
            options["source_language"] = fields.source_language
        if fields.prefix:
            options["prefix"] = fields.prefix
        (best,) = await self._gateway.translations.translate(caller, [fields.text], options)
        alternatives = [
            AlternativeAnswer(translation.text, translation.score or 0.0)
            for translation in (best, *best.alternatives)[: fields.count]
        ]
        return reply(AlternativesAnswer(alternatives, request.request_id))

    async def score(self, request: GatewayRequest) -> Response:
        """Score given translations."""
        scores = await self._scores(request, {})
        return reply(ScoreAnswer([scored_answer(score) for score in scores], request.request_id))

    async def alignments(self, request: GatewayRequest) -> Response:
        """Align given translations with their texts."""
        scores = await self._scores(request, {"return_alignments": "hard"})
        aligned: list[Any] = [
            score.alignments.as_json() if score.alignments else "" for score in scores
        ]
        return reply(AlignmentsAnswer(aligned, request.request_id))

    async def _translate_marked(
        self,
        form: str,
        caller: Caller,
        texts: Sequence[str],
        options: Mapping[str, Any],
        *,
        store: bool,
    ) -> list[Translation]:
        """`Translations.translate` for texts with markup."""
        known = next((text_format for text_format in TEXT_FORMATS if text_format == form), None)
        if known is None:
            raise InvalidInput(f"format is {brief(form)}: give text, {' or '.join(TEXT_FORMATS)}")
        check_marked_options(options, f"format {form}")
        gateway = self._gateway
        return await gateway.marked.translate(
            caller,
            texts,
            TextForm(known, options.get("source_language")),
            options,
            store=store,
        )

    async def _scores(self, request: GatewayRequest, default: dict[str, Any]) -> list[PairScore]:
        caller = await caller_of(self._gateway, request)
        limits = (await self._gateway.translations.info()).limits
        body = read_body(request, ScoreRequest, SCORE, limits)
        if isinstance(body.fields.text, str) != isinstance(body.fields.target, str):
            raise InvalidInput("text and target: give two texts, or two lists")
        texts, targets = _listed(body.fields.text), _listed(body.fields.target)
        if len(texts) != len(targets):
            raise InvalidInput(
                f"text and target have {len(texts)} and {len(targets)} elements: give a "
                "translation for each text"
            )
        options = {**default, **body.options}
        return await self._gateway.translations.score(caller, texts, targets, options)

    async def _events(
        self, caller: Caller, body: Body[StreamRequest], request: str
    ) -> AsyncGenerator[StreamEvent, None]:
        parts = self._gateway.translations.stream(caller, body.fields.text, _with_stored(body))
        try:
            async for part in parts:
                yield stream_event(part, request)
        finally:
            await parts.aclose()


def _with_stored(body: Body[TranslateRequest] | Body[StreamRequest]) -> dict[str, Any]:
    """Adds the ids of stored glossaries and of a memory to the options."""
    stored = {"glossary_ids": body.fields.glossary_ids, "memory_id": body.fields.memory_id}
    body.options.update({name: value for name, value in stored.items() if value})
    return body.options


def _listed(texts: Texts) -> list[str]:
    return [texts] if isinstance(texts, str) else texts

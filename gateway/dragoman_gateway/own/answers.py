"""Converts objects of the core to the structs of this API."""

from __future__ import annotations

from typing import Any, TypeVar

from dragoman_client import Attention, PairScore, SoftAlignment, TokenScores, Translation
from dragoman_options.assessment import Alignments
from dragoman_options.markup import PlacedCodes
from dragoman_options.refusal import Refusal
from msgspec import UNSET, UnsetType

from dragoman_gateway.core.errors import GatewayError, InvalidInput
from dragoman_gateway.core.glossaries import Glossary
from dragoman_gateway.core.job import Job
from dragoman_gateway.core.usage import Usage
from dragoman_gateway.own.shapes import (
    AttentionAnswer,
    CodesAnswer,
    DictionaryAnswer,
    ErrorAnswer,
    GlossaryAnswer,
    JobAnswer,
    ScoredAnswer,
    SoftAlignmentAnswer,
    StreamEvent,
    TokenScoresAnswer,
    TranslationAnswer,
    UsageAnswer,
)

_Value = TypeVar("_Value")


def translation_answer(found: Translation) -> TranslationAnswer:
    """Converts a translation."""
    return TranslationAnswer(**_translation_fields(found))


def stream_event(found: Translation, request_id: str) -> StreamEvent:
    """Converts a part of a stream."""
    last: dict[str, Any] = {"request_id": request_id} if found.finish_reason else {}
    return StreamEvent(delta=found.delta or "", **_translation_fields(found), **last)


def scored_answer(found: PairScore) -> ScoredAnswer:
    """Converts the scores of a given translation."""
    return ScoredAnswer(
        score=found.score,
        confidence=found.confidence,
        token_scores=_token_scores(found.token_scores),
        alignments=alignment_answer(found.alignments),
        attention=_attention(found.attention),
        bundle=_set(found.bundle),
    )


def alignment_answer(found: Alignments | None) -> str | SoftAlignmentAnswer | UnsetType:
    """Converts links between words, or weights between tokens."""
    if found is None:
        return UNSET
    if isinstance(found, SoftAlignment):
        return SoftAlignmentAnswer(
            list(found.source), list(found.target), [list(row) for row in found.weights]
        )
    return str(found)


def error_answer(error: GatewayError) -> ErrorAnswer:
    """Converts an error."""
    fields = Refusal.of(error).fields() if isinstance(error, InvalidInput) else {}
    return ErrorAnswer(
        code=error.code, message=str(error), retry_after_s=_set(error.retry_whole_s), **fields
    )


def glossary_answer(found: Glossary, request_id: str | UnsetType = UNSET) -> GlossaryAnswer:
    """Converts a glossary, without its entries."""
    return GlossaryAnswer(
        id=found.id,
        name=found.name,
        created=found.created,
        dictionaries=[
            DictionaryAnswer(one.source_language, one.target_language, one.entry_count)
            for one in found.dictionaries
        ],
        request_id=request_id,
    )


def job_answer(found: Job, request_id: str | UnsetType = UNSET) -> JobAnswer:
    """Converts a document's job."""
    return JobAnswer(
        id=found.id,
        file_name=found.file_name,
        state=found.state,
        done=found.done,
        created=found.created,
        expires=found.expires,
        characters=_set(found.characters),
        seconds_remaining=_set(found.seconds_remaining),
        error=UNSET if found.error is None else error_answer(found.error),
        request_id=request_id,
    )


def usage_answer(found: Usage, request_id: str) -> UsageAnswer:
    """Converts the usage of a caller."""
    return UsageAnswer(
        characters=found.characters,
        requests=found.requests,
        characters_limit=_set(found.characters_limit),
        begin=found.begin,
        end=found.end,
        request_id=request_id,
    )


def _translation_fields(found: Translation) -> dict[str, Any]:
    alternatives = [translation_answer(one) for one in found.alternatives]
    return {
        "text": found.text,
        "finish_reason": found.finish_reason,
        "output_tokens": found.output_tokens,
        "warnings": list(found.warnings),
        "language_fallbacks": list(found.language_fallbacks) or UNSET,
        "detected_language": _set(found.detected_language),
        "detected_probability": _set(found.detected_probability),
        "score": _set(found.score),
        "confidence": _set(found.confidence),
        "alternatives": alternatives or UNSET,
        "token_scores": _token_scores(found.token_scores),
        "alignments": alignment_answer(found.alignments),
        "attention": _attention(found.attention),
        "bundle": _set(found.bundle),
        "via": _set(found.via),
        "codes": _codes(found.codes),
    }


def _codes(found: PlacedCodes | None) -> CodesAnswer | UnsetType:
    if found is None:
        return UNSET
    return CodesAnswer([list(span) for span in found.codes], found.uncertain)


def _token_scores(found: TokenScores | None) -> TokenScoresAnswer | UnsetType:
    if found is None:
        return UNSET
    return TokenScoresAnswer(list(found.tokens), list(found.log_probs))


def _attention(found: Attention | None) -> AttentionAnswer | UnsetType:
    return UNSET if found is None else AttentionAnswer(**found.as_json())


def _set(value: _Value | None) -> _Value | UnsetType:
    """Returns a value, or UNSET instead of None, which leaves the field out of the answer."""
    return UNSET if value is None else value

"""Converts objects of the core to the structs of this API."""

from __future__ import annotations

import functools
from typing import Any, TypeVar

import msgspec
from dragoman_client import PairScore, Translation
from dragoman_options.output import Codec
from dragoman_options.refusal import Refusal
from dragoman_options.table import OUTPUTS, Assessed
from msgspec import UNSET

from dragoman_gateway.core.errors import GatewayError, InvalidInput
from dragoman_gateway.glossaries.glossaries import Glossary
from dragoman_gateway.jobs.job import Job
from dragoman_gateway.memories.memories import StoredMemory
from dragoman_gateway.protocols.own.shapes import (
    DictionaryAnswer,
    ErrorAnswer,
    GlossaryAnswer,
    JobAnswer,
    MemoryAnswer,
    ScoredAnswer,
    StreamEvent,
    TranslationAnswer,
)

_Shape = TypeVar("_Shape", bound=msgspec.Struct)


def translation_answer(translation: Translation) -> TranslationAnswer:
    """Converts a translation."""
    fields = _fields(translation, TranslationAnswer)
    if translation.alternatives:
        fields["alternatives"] = [translation_answer(other) for other in translation.alternatives]
    return TranslationAnswer(**fields)


def stream_event(translation: Translation, request_id: str) -> StreamEvent:
    """Converts a part of a stream."""
    return StreamEvent(
        **_fields(translation, StreamEvent),
        request_id=request_id if translation.finish_reason else UNSET,
    )


def scored_answer(score: PairScore) -> ScoredAnswer:
    """Converts the scores of a given translation."""
    return ScoredAnswer(**_fields(score, ScoredAnswer))


def _fields(assessed: Assessed, shape: type[msgspec.Struct]) -> dict[str, Any]:
    """Returns the fields of a struct for the outputs that a translation or a score has."""
    values, fields = vars(assessed), {}
    for name, codec, is_required in _outputs_of(shape):
        value = values[name]
        if is_required:  # servers of version 0.1 send no `delta`
            fields[name] = codec.as_json(codec.empty if value is None else value)
        elif value is not None and value != ():
            fields[name] = codec.as_json(value)
    return fields


@functools.cache
def _outputs_of(shape: type[msgspec.Struct]) -> list[tuple[str, Codec, bool]]:
    """Returns the fields and codecs of the outputs in a struct, and whether it requires them."""
    required = {field.name: field.required for field in msgspec.structs.fields(shape)}
    return [
        (output.field, output.codec, required[output.field])
        for output in OUTPUTS.values()
        if output.field in required
    ]


def error_answer(error: GatewayError) -> ErrorAnswer:
    """Converts an error."""
    return answer_of(
        ErrorAnswer,
        Refusal.of(error) if isinstance(error, InvalidInput) else None,
        code=error.code,
        message=str(error),
        retry_after_s=error.retry_whole_s,
    )


def glossary_answer(glossary: Glossary, request_id: str | None = None) -> GlossaryAnswer:
    """Converts a glossary, without its entries."""
    dictionaries = [answer_of(DictionaryAnswer, dictionary) for dictionary in glossary.dictionaries]
    return answer_of(GlossaryAnswer, glossary, dictionaries=dictionaries, request_id=request_id)


def memory_answer(memory: StoredMemory, request_id: str | None = None) -> MemoryAnswer:
    """Converts a translation memory."""
    return answer_of(MemoryAnswer, memory, request_id=request_id)


def job_answer(job: Job, request_id: str | None = None) -> JobAnswer:
    """Converts a document's job."""
    error = None if job.error is None else error_answer(job.error)
    return answer_of(JobAnswer, job, error=error, request_id=request_id)


def answer_of(shape: type[_Shape], instance: object, **more: Any) -> _Shape:
    """Returns a struct with an object's attributes and more; those of None are left out."""
    values = {name: getattr(instance, name, None) for name in shape.__struct_fields__} | more
    return shape(**{name: value for name, value in values.items() if value is not None})

"""Requests and answers of the project's own API as msgspec structs.

The OpenAPI document is generated from them. The options of a translation are not fields of these
structs: they come from the table of options.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from dragoman_client.files.file_report import REASONS
from dragoman_options.assessment import Attention, SoftAlignment
from dragoman_options.table import OPTIONS, OUTPUTS, SCORE, STREAM, TRANSLATE
from msgspec import UNSET, Meta, Struct, UnsetType, defstruct

from dragoman_gateway.reader.marked import TEXT_FORMATS

Texts = str | list[str]
Language = Annotated[str, Meta(description="code of a language, such as `de`", examples=["de"])]
Terms = Annotated[
    dict[str, str], Meta(description="target terms by source term", examples=[{"tea": "Tee"}])
]
_GlossaryIds = Annotated[
    list[str],
    Meta(description="ids of stored glossaries; earlier ones take precedence"),
]
_LEFT = ", ".join(f"`{reason}` ({why})" for reason, why in REASONS.items())
_MemoryId = Annotated[
    str,
    Meta(
        min_length=1,
        description="id of a stored translation memory: a text that it has gets its translation "
        "from there, not from the model",
    ),
]
_Sentence = Annotated[str, Meta(description="a sentence, up to the model's limit for a text")]
_RequestId = Annotated[str, Meta(description="id of this request, as in the log")]


class TranslateRequest(Struct, kw_only=True):
    """Texts, and how to translate them."""

    text: Annotated[Texts, Meta(description="a text, or several, of any length")]
    format: Annotated[
        str,
        Meta(
            description="format of the texts: with `html` or `xml` only their words are translated "
            "and tags are placed around the corresponding words; tags count as characters",
            extra_json_schema={"enum": ["text", *TEXT_FORMATS]},
        ),
    ] = "text"
    glossary_ids: _GlossaryIds | UnsetType = UNSET
    memory_id: _MemoryId | UnsetType = UNSET
    store: Annotated[
        bool,
        Meta(description="false: the answer does not come from the cache and is not stored in it"),
    ] = True


class StreamRequest(Struct, kw_only=True):
    """A text, and how to translate it."""

    text: Annotated[str, Meta(description="a text of any length")]
    format: Annotated[
        str,
        Meta(
            description="format of the text; only `/translate` supports tags",
            extra_json_schema={"enum": ["text"]},
        ),
    ] = "text"
    glossary_ids: _GlossaryIds | UnsetType = UNSET
    memory_id: _MemoryId | UnsetType = UNSET


class DetectRequest(Struct, kw_only=True):
    """Texts whose languages are to be detected."""

    text: Annotated[Texts, Meta(description="a text, or up to 1,000")]


class AlternativesRequest(Struct, kw_only=True):
    """A text, and a prefix of its translation."""

    text: _Sentence
    target_language: Annotated[str, Meta(description="language to translate into, such as `de`")]
    source_language: (
        Annotated[str, Meta(description="language of the text, such as `en`")] | UnsetType
    ) = UNSET
    prefix: Annotated[str, Meta(description="prefix of the translation")] = ""
    count: Annotated[
        int,
        Meta(
            description="number of translations, up to the model's `max_beam_width`",
            extra_json_schema={"minimum": 1},
        ),
    ] = 5


class ScoreRequest(Struct, kw_only=True):
    """Texts with their translations."""

    text: Annotated[Texts, Meta(description="a text, or several")]
    target: Annotated[Texts, Meta(description="its translation, or one for each of the texts")]


class LiveRequest(Struct, kw_only=True):
    """How to translate a text that grows."""

    revise: Annotated[
        int,
        Meta(
            ge=0,
            le=100,
            description="how many words at the end of the translation an update may change",
        ),
    ] = 0
    revise_sentences: Annotated[
        bool,
        Meta(description="true: a sentence's translation may change once, when the sentence ends"),
    ] = False
    glossary_ids: _GlossaryIds | UnsetType = UNSET


class LiveOpening(LiveRequest, kw_only=True):
    """The first message of a WebSocket."""

    key: Annotated[str, Meta(description="API key, for browsers")] | UnsetType = UNSET


class LiveAnswer(Struct):
    """A live session."""

    id: Annotated[str, Meta(description="id of the session; keep it secret")]
    source_language: str
    target_language: str
    request_id: _RequestId


class LiveChange(Struct, kw_only=True):
    """A change of the text; without `text` and `append` it stays as it is."""

    text: (
        Annotated[str, Meta(description="the whole text so far; only its last sentence may change")]
        | UnsetType
    ) = UNSET
    append: Annotated[str, Meta(description="what to add to the text")] | UnsetType = UNSET
    finish: Annotated[
        bool, Meta(description="true: the last sentence has ended, for example before a pause")
    ] = False
    sequence: (
        Annotated[
            int,
            Meta(
                ge=1,
                description="number of the update, from 1; repeating the last one returns its "
                "answer again and changes nothing",
            ),
        ]
        | UnsetType
    ) = UNSET


class LiveTranslationAnswer(Struct):
    """The translation after an update."""

    sequence: int
    translation: Annotated[str, Meta(description="the translation so far")]
    revisable: Annotated[
        str, Meta(description="its end that may still change; what is before it never does")
    ]
    erased_words: Annotated[
        int, Meta(description="words of the previous translation that this one has not")
    ]
    request_id: _RequestId


class AttentionRequest(Struct, kw_only=True):
    """A sentence whose attention weights are shown."""

    text: _Sentence
    target: (
        Annotated[str, Meta(description="its translation; default: the model's")] | UnsetType
    ) = UNSET


class AttentionAnswer(Struct):
    """Attention weights of every head, [layer][head][query][key]."""

    source: list[str]
    read: list[str]
    said: list[str]
    encoder: list[list[list[list[float]]]]
    decoder: list[list[list[list[float]]]]
    cross: list[list[list[list[float]]]]
    alignment_heads: Annotated[
        list[list[int]],
        Meta(description="layers and heads of the cross-attention that aligns words best"),
    ]
    aligns_when_read: Annotated[
        bool, Meta(description="whether they align the token that a step reads, not generates")
    ]


def _outputs(model: str, base: type[Struct] = Struct) -> Any:
    """Returns a struct with the outputs of a model that its base lacks."""
    options = {option.output: option.name for option in OPTIONS.values()}
    fields: list[tuple[Any, ...]] = []
    for output in OUTPUTS.values():
        if model not in output.models or output.field in base.__struct_fields__:
            continue
        kind = output.codec.json_type
        is_certain = model in output.always or output.in_api
        option = "" if is_certain else options.get(output.name, "")
        described: Any = Annotated[
            AttentionAnswer if kind is Attention else kind,
            Meta(description=output.help + f"; with `{option}`" * bool(option)),
        ]
        fields.append(
            (output.field, described)
            if is_certain
            else (output.field, described | UnsetType, UNSET)
        )
    return defstruct("Outputs", fields, bases=(base,), kw_only=True)


class TranslationAnswer(_outputs(TRANSLATE), kw_only=True):  # type: ignore[misc, call-arg]
    """A translation. Optional fields are present if an option requested them."""

    alternatives: (
        Annotated[
            list[TranslationAnswer],
            Meta(description="more translations, with `num_return_sequences`"),
        ]
        | UnsetType
    ) = UNSET


class TranslateAnswer(Struct):
    """Translations in the order of the texts."""

    translations: list[TranslationAnswer]
    request_id: _RequestId


class StreamEvent(  # type: ignore[call-arg]
    _outputs(STREAM, TranslationAnswer),  # type: ignore[misc]
    kw_only=True,
):
    """The stable prefix of a translation; the last event has a `finish_reason`."""

    request_id: _RequestId | UnsetType = UNSET


class DetectionAnswer(Struct):
    """The language of a text."""

    language: Annotated[str, Meta(description="code of the language, a source language")]
    probability: Annotated[float, Meta(description="from 0 to 1; near 0: another language")]


class DetectAnswer(Struct):
    """Languages in the order of the texts."""

    detections: list[DetectionAnswer]
    request_id: _RequestId


class LanguageAnswer(Struct):
    """A source language."""

    code: str
    name: Annotated[str, Meta(description="English name")]
    targets: Annotated[list[str], Meta(description="codes of its target languages")]


class PairAnswer(Struct):
    """A translation direction."""

    source: str
    target: str
    models: Annotated[
        list[str],
        Meta(description="models for it, the preferred one first; with `via`, one for each leg"),
    ]
    via: Annotated[str | None, Meta(description="the pivot language; null: direct translation")]


class LanguagesAnswer(Struct):
    """The server's languages and directions."""

    languages: list[LanguageAnswer]
    pairs: Annotated[list[PairAnswer], Meta(description="directions, direct ones first")]
    request_id: _RequestId


class FeaturesAnswer(Struct):
    """Features and limits of this gateway."""

    keys_required: Annotated[bool, Meta(description="whether requests need an API key")]
    document_formats: Annotated[list[str], Meta(description="file extensions, such as `.txt`")]
    body_bytes: Annotated[int, Meta(description="maximum size of a request body, except files")]
    file_bytes: Annotated[int, Meta(description="maximum size of an uploaded file")]


class InfoAnswer(Struct):
    """The server's version, models, languages, options and limits."""

    product: Annotated[str, Meta(description="always `dragoman`; clients recognize the API by it")]
    version: str
    models: list[str]
    languages: list[str]
    directions: Annotated[list[list[str]], Meta(description="pairs of source and target language")]
    pairs: Annotated[list[PairAnswer], Meta(description="the same, with their models")]
    bundles: Annotated[list[dict[str, Any]], Meta(description="loaded models")]
    options: Annotated[
        list[dict[str, Any]], Meta(description="options of a request, with ranges and defaults")
    ]
    limits: Annotated[dict[str, float], Meta(description="limits by name")]
    features: FeaturesAnswer
    request_id: _RequestId


class HealthAnswer(Struct):
    """The server can translate now."""

    status: Literal["ready"]
    request_id: _RequestId


class AlternativeAnswer(Struct):
    """A completed translation."""

    text: Annotated[str, Meta(description="the whole translation, including the prefix")]
    score: Annotated[float, Meta(description="higher is better")]


class AlternativesAnswer(Struct):
    """Translations that differ in the token after the prefix, best first."""

    alternatives: list[AlternativeAnswer]
    request_id: _RequestId


class ScoredAnswer(_outputs(SCORE), kw_only=True):  # type: ignore[misc, call-arg]
    """The model's scores for a given translation."""


class ScoreAnswer(Struct):
    """Scores in the order of the texts."""

    scores: list[ScoredAnswer]
    request_id: _RequestId


class AlignmentsAnswer(Struct):
    """Alignments in the order of the texts."""

    alignments: list[str | SoftAlignment]
    request_id: _RequestId


class DocumentFields(Struct, kw_only=True):
    """Fields of a form besides its file and the options of a translation."""

    glossary_ids: _GlossaryIds | UnsetType = UNSET
    columns: Annotated[
        list[str],
        Meta(
            description="names of the columns of a table (CSV, TSV) to translate", max_length=1000
        ),
    ] = []
    titles: Annotated[
        bool, Meta(description="true: translate the title among a document's properties too")
    ] = False
    memory_id: _MemoryId | UnsetType = UNSET


class DictionaryRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """The terms of a direction."""

    source_language: Language
    target_language: Language
    entries: Terms


class GlossaryRequest(Struct, kw_only=True):
    """A new glossary."""

    name: Annotated[str, Meta(min_length=1, max_length=1024, description="not necessarily unique")]
    dictionaries: list[DictionaryRequest] = []


class RenameRequest(Struct, kw_only=True):
    """A new name of a glossary."""

    name: Annotated[str, Meta(min_length=1, max_length=1024)]


class DictionaryAnswer(Struct):
    """A direction of a glossary, without its terms."""

    source_language: str
    target_language: str
    entry_count: int


class GlossaryAnswer(Struct, kw_only=True):
    """A glossary."""

    id: str
    name: str
    created: datetime
    dictionaries: list[DictionaryAnswer]
    request_id: _RequestId | UnsetType = UNSET


class GlossariesAnswer(Struct):
    """The caller's glossaries, oldest first."""

    glossaries: list[GlossaryAnswer]
    request_id: _RequestId


class MemoryRequest(Struct, kw_only=True):
    """A new translation memory, without segments."""

    name: Annotated[str, Meta(min_length=1, max_length=1024, description="not necessarily unique")]
    source_language: Language
    target_language: Language


class MemoryAnswer(Struct, kw_only=True):
    """A translation memory."""

    id: str
    name: str
    created: datetime
    updated: Annotated[datetime, Meta(description="time of the last import")]
    source_language: str
    target_language: str
    segment_count: int
    size_bytes: int
    request_id: _RequestId | UnsetType = UNSET


class MemoriesAnswer(Struct):
    """The caller's translation memories, oldest first."""

    memories: list[MemoryAnswer]
    request_id: _RequestId


class ImportFields(Struct, kw_only=True):
    """A form with a file and nothing else."""


class SearchRequest(Struct, kw_only=True):
    """A text to look up in a translation memory."""

    text: Annotated[str, Meta(description="a text, as a segment of a document")]
    min_similarity: Annotated[int, Meta(ge=1, le=100, description="in percent")] = 75
    count: Annotated[int, Meta(ge=1, le=50, description="maximum number of matches")] = 5


class MatchAnswer(Struct):
    """A segment that is similar to a text."""

    source: str
    target: str
    similarity: Annotated[int, Meta(description="in percent; 100: the text is equal")]


class MatchesAnswer(Struct):
    """Matches, the best first."""

    matches: list[MatchAnswer]
    request_id: _RequestId


class ErrorAnswer(Struct, kw_only=True):
    """An error."""

    code: Annotated[str, Meta(description="kind of error, for programs")]
    message: Annotated[str, Meta(description="for people: names the value and the fix")]
    retry_after_s: (
        Annotated[float, Meta(description="seconds after which a retry can help")] | UnsetType
    ) = UNSET
    kind: Annotated[str, Meta(description="kind of refusal, such as too_large")] | UnsetType = UNSET
    option: Annotated[str, Meta(description="option at fault")] | UnsetType = UNSET
    text_index: Annotated[int, Meta(description="index of the text at fault")] | UnsetType = UNSET


class Refusal(Struct):
    """The answer to a failed request."""

    error: ErrorAnswer
    request_id: _RequestId


class JobAnswer(Struct, kw_only=True):
    """A document, and the progress of its translation."""

    id: str
    file_name: Annotated[str, Meta(description="file name of the result")]
    state: Literal["queued", "translating", "done", "failed", "cancelled"]
    done: Annotated[float, Meta(description="translated share, from 0 to 1")]
    created: datetime
    expires: Annotated[datetime, Meta(description="time when its files are deleted")]
    characters: int | UnsetType = UNSET
    seconds_remaining: float | UnsetType = UNSET
    error: ErrorAnswer | UnsetType = UNSET
    left: Annotated[
        dict[str, int],
        Meta(description=f"number of texts so far that are left as they are, by why: {_LEFT}"),
    ] = {}
    request_id: _RequestId | UnsetType = UNSET


class JobsAnswer(Struct):
    """The caller's documents, newest first."""

    documents: list[JobAnswer]
    request_id: _RequestId


class UsageAnswer(Struct, kw_only=True):
    """The caller's usage in this calendar month (UTC)."""

    characters: Annotated[
        int, Meta(description="characters of source text, in Unicode code points")
    ]
    requests: int
    characters_limit: (
        Annotated[int, Meta(description="limit of characters per month; absent: no limit")]
        | UnsetType
    ) = UNSET
    begin: datetime
    end: datetime
    request_id: _RequestId

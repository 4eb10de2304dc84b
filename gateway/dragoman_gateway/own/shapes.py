"""Requests and answers of the project's own API as msgspec's structs.

The OpenAPI document is made of them. Options of a translation are not among the fields of a
request: they come from the table of options.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from dragoman_gateway.core.marked_texts import READERS

Texts = str | list[str]
Language = Annotated[str, Meta(description="code of a language, such as `de`", examples=["de"])]
Terms = Annotated[
    dict[str, str], Meta(description="target terms by source term", examples=[{"tea": "Tee"}])
]
_GlossaryIds = Annotated[
    list[str],
    Meta(description="stored glossaries whose terms are used; an earlier one comes first"),
]
_Sentence = Annotated[str, Meta(description="a sentence; not longer than the model takes whole")]
_RequestId = Annotated[str, Meta(description="of this request; it is in the log too")]


class TranslateRequest(Struct, kw_only=True):
    """Texts, and how to translate them."""

    text: Annotated[Texts, Meta(description="a text, or several; each in any length")]
    format: Annotated[
        str,
        Meta(
            description="of the texts: with `html` or `xml` only their words are translated, and "
            "tags stand around the words that they belong to; each text counts with its tags",
            extra_json_schema={"enum": ["text", *READERS]},
        ),
    ] = "text"
    glossary_ids: _GlossaryIds | UnsetType = UNSET
    store: Annotated[
        bool,
        Meta(description="false: the answer does not come from the cache and is not kept in it"),
    ] = True


class StreamRequest(Struct, kw_only=True):
    """A text, and how to translate it."""

    text: Annotated[str, Meta(description="a text in any length")]
    format: Annotated[
        str,
        Meta(
            description="of the text: tags are placed in whole translations, by `/translate`",
            extra_json_schema={"enum": ["text"]},
        ),
    ] = "text"
    glossary_ids: _GlossaryIds | UnsetType = UNSET


class DetectRequest(Struct, kw_only=True):
    """Texts whose languages are wanted."""

    text: Annotated[Texts, Meta(description="a text, or up to 1,000")]


class AlternativesRequest(Struct, kw_only=True):
    """A text, and how its translation begins."""

    text: _Sentence
    target_language: Annotated[str, Meta(description="language to translate into, such as `de`")]
    source_language: (
        Annotated[str, Meta(description="language of the text, such as `en`")] | UnsetType
    ) = UNSET
    prefix: Annotated[str, Meta(description="how the translation begins")] = ""
    count: Annotated[
        int, Meta(ge=1, description="how many; at most the model's `max_beam_width`")
    ] = 5


class ScoreRequest(Struct, kw_only=True):
    """Texts with their translations."""

    text: Annotated[Texts, Meta(description="a text, or several")]
    target: Annotated[Texts, Meta(description="its translation, or one for each of the texts")]


class AttentionRequest(Struct, kw_only=True):
    """A sentence to look into."""

    text: _Sentence
    target: (
        Annotated[str, Meta(description="its translation; left out: the model's own")] | UnsetType
    ) = UNSET


class TokenScoresAnswer(Struct):
    """Log-probabilities of a translation's tokens."""

    tokens: list[str]
    log_probs: list[float]


class SoftAlignmentAnswer(Struct):
    """Weights between tokens: a row for each token of the translation."""

    source: list[str]
    target: list[str]
    weights: list[list[float]]


AlignmentAnswer = Annotated[
    str | SoftAlignmentAnswer,
    Meta(
        description="links between words such as `0-0 1-2` (hard), or weights between tokens (soft)"
    ),
]


class AttentionAnswer(Struct):
    """Weights of every head, [layer][head][looks][is looked at]."""

    source: list[str]
    read: list[str]
    said: list[str]
    encoder: list[list[list[list[float]]]]
    decoder: list[list[list[list[float]]]]
    cross: list[list[list[list[float]]]]


class CodesAnswer(Struct):
    """Where the codes of a text's markup are in its translation."""

    codes: Annotated[
        list[list[int]], Meta(description="begin and end of each, in the order of the text's")
    ]
    uncertain: Annotated[int, Meta(description="how many are where they are by a guess")]


class TranslationAnswer(Struct, kw_only=True):
    """A translation. Optional fields are there if an option asked for them."""

    text: Annotated[str, Meta(description="the translation")]
    finish_reason: Annotated[
        str, Meta(description="`stop`, or `length` where the limit of tokens cut the translation")
    ]
    output_tokens: Annotated[int, Meta(description="tokens of the translation")]
    warnings: Annotated[
        list[str],
        Meta(description="of `repetition`, `short`, `long`, `untranslated`; empty: none"),
    ]
    detected_language: (
        Annotated[str, Meta(description="of the text, with a `source_language` of `auto`")]
        | UnsetType
    ) = UNSET
    detected_probability: (
        Annotated[float, Meta(description="of that language, from 0 to 1")] | UnsetType
    ) = UNSET
    score: Annotated[float, Meta(description="with `return_scores`")] | UnsetType = UNSET
    confidence: (
        Annotated[
            float,
            Meta(description="mean log-probability of a token, with `return_confidence`"),
        ]
        | UnsetType
    ) = UNSET
    alternatives: (
        Annotated[
            list[TranslationAnswer],
            Meta(description="further translations, with `num_return_sequences`"),
        ]
        | UnsetType
    ) = UNSET
    token_scores: TokenScoresAnswer | UnsetType = UNSET
    alignments: AlignmentAnswer | UnsetType = UNSET
    attention: AttentionAnswer | UnsetType = UNSET
    codes: CodesAnswer | UnsetType = UNSET
    bundle: (
        Annotated[
            str,
            Meta(
                description="identity of the model, with `return_bundle`; through a pivot language "
                "of both, with a comma"
            ),
        ]
        | UnsetType
    ) = UNSET
    via: (
        Annotated[str, Meta(description="the pivot language; left out: the translation is direct")]
        | UnsetType
    ) = UNSET


class TranslateAnswer(Struct):
    """Translations in the order of the texts."""

    translations: list[TranslationAnswer]
    request_id: _RequestId


class StreamEvent(TranslationAnswer, kw_only=True):
    """A translation as far as it is certain; the last event has a `finish_reason`."""

    delta: Annotated[str, Meta(description="what this event adds to the text of the one before")]
    request_id: _RequestId | UnsetType = UNSET


class DetectionAnswer(Struct):
    """The language of a text."""

    language: Annotated[str, Meta(description="its code; one that the server translates from")]
    probability: Annotated[float, Meta(description="from 0 to 1; near 0: of another language")]


class DetectAnswer(Struct):
    """Languages in the order of the texts."""

    detections: list[DetectionAnswer]
    request_id: _RequestId


class LanguageAnswer(Struct):
    """A language that the server translates from."""

    code: str
    name: Annotated[str, Meta(description="in English")]
    targets: Annotated[list[str], Meta(description="codes of the languages it is translated into")]


class PairAnswer(Struct):
    """A direction."""

    source: str
    target: str
    models: Annotated[
        list[str],
        Meta(description="that translate it, the preferred one first; with `via`, of each leg"),
    ]
    via: Annotated[str | None, Meta(description="the pivot language; null: it is direct")]


class LanguagesAnswer(Struct):
    """What the server translates."""

    languages: list[LanguageAnswer]
    pairs: Annotated[list[PairAnswer], Meta(description="directions, direct ones first")]
    request_id: _RequestId


class FeaturesAnswer(Struct):
    """What this gateway offers, and its bounds."""

    keys_required: Annotated[bool, Meta(description="whether requests need an API key")]
    document_formats: Annotated[list[str], Meta(description="endings of files, such as `.txt`")]
    body_bytes: Annotated[int, Meta(description="longest body of a request, files aside")]
    file_bytes: Annotated[int, Meta(description="longest uploaded file")]


class InfoAnswer(Struct):
    """What the server is, what it serves, and which options it takes."""

    product: Annotated[str, Meta(description="always `dragoman`: how clients know this API")]
    version: str
    models: list[str]
    languages: list[str]
    directions: Annotated[list[list[str]], Meta(description="pairs of source and target language")]
    pairs: Annotated[list[PairAnswer], Meta(description="the same, with their models")]
    bundles: Annotated[list[dict[str, Any]], Meta(description="models that are loaded")]
    options: Annotated[
        list[dict[str, Any]], Meta(description="options of a request, with ranges and defaults")
    ]
    limits: Annotated[dict[str, float], Meta(description="numbers by name")]
    features: FeaturesAnswer
    request_id: _RequestId


class HealthAnswer(Struct):
    """The server can translate now."""

    status: Literal["ready"]
    request_id: _RequestId


class AlternativeAnswer(Struct):
    """A completed translation."""

    text: Annotated[str, Meta(description="the whole translation, which begins with the prefix")]
    score: Annotated[float, Meta(description="higher is better")]


class AlternativesAnswer(Struct):
    """Translations that differ in the token after the prefix, best first."""

    alternatives: list[AlternativeAnswer]
    request_id: _RequestId


class ScoredAnswer(Struct, kw_only=True):
    """What the model thinks of a translation."""

    score: Annotated[
        float, Meta(description="sum of the tokens' log-probabilities over the length penalty")
    ]
    confidence: Annotated[float, Meta(description="mean log-probability of a token")]
    token_scores: TokenScoresAnswer | UnsetType = UNSET
    alignments: AlignmentAnswer | UnsetType = UNSET
    attention: AttentionAnswer | UnsetType = UNSET
    bundle: str | UnsetType = UNSET


class ScoreAnswer(Struct):
    """Scores in the order of the texts."""

    scores: list[ScoredAnswer]
    request_id: _RequestId


class AlignmentsAnswer(Struct):
    """Alignments in the order of the texts."""

    alignments: list[AlignmentAnswer]
    request_id: _RequestId


class DocumentFields(Struct, kw_only=True):
    """Fields of a form beside its file and the options of a translation."""

    glossary_ids: _GlossaryIds | UnsetType = UNSET


class DictionaryRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Terms of a direction."""

    source_language: Language
    target_language: Language
    entries: Terms


class GlossaryRequest(Struct, kw_only=True):
    """A new glossary."""

    name: Annotated[str, Meta(min_length=1, max_length=1024, description="need not be unique")]
    dictionaries: list[DictionaryRequest] = []


class RenameRequest(Struct, kw_only=True):
    """Another name of a glossary."""

    name: Annotated[str, Meta(min_length=1, max_length=1024)]


class DictionaryAnswer(Struct):
    """Terms of a direction, without the terms."""

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


class ErrorAnswer(Struct, kw_only=True):
    """What went wrong."""

    code: Annotated[str, Meta(description="name of the kind of error, for programs")]
    message: Annotated[str, Meta(description="for a person: names the value and the fix")]
    retry_after_s: (
        Annotated[float, Meta(description="seconds after which another try can help")] | UnsetType
    ) = UNSET


class Refusal(Struct):
    """The answer to a request that failed."""

    error: ErrorAnswer
    request_id: _RequestId


class JobAnswer(Struct, kw_only=True):
    """A document, and how far its translation is."""

    id: str
    file_name: Annotated[str, Meta(description="of the result")]
    state: Literal["queued", "translating", "done", "failed", "cancelled"]
    done: Annotated[float, Meta(description="part that is translated, from 0 to 1")]
    created: datetime
    expires: Annotated[datetime, Meta(description="when its files are removed")]
    characters: int | UnsetType = UNSET
    seconds_remaining: float | UnsetType = UNSET
    error: ErrorAnswer | UnsetType = UNSET
    request_id: _RequestId | UnsetType = UNSET


class JobsAnswer(Struct):
    """The caller's documents, newest first."""

    documents: list[JobAnswer]
    request_id: _RequestId


class UsageAnswer(Struct, kw_only=True):
    """What the caller has used in this calendar month (UTC)."""

    characters: Annotated[int, Meta(description="of source text, in Unicode code points")]
    requests: int
    characters_limit: (
        Annotated[int, Meta(description="of the month; absent: no limit")] | UnsetType
    ) = UNSET
    begin: datetime
    end: datetime
    request_id: _RequestId

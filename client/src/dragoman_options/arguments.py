"""Options as keyword arguments, for type checkers and editors; a test compares the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from dragoman_options.markup import Markup

AlignmentForm = Literal["hard", "soft"]


class ScoringArguments(TypedDict, total=False):
    """Options of scoring given translations; docs/options.md describes them."""

    source_language: str | None
    target_language: str | None
    model: str | None
    length_penalty: float | None
    return_scores: bool | None
    return_token_scores: bool | None
    return_alignments: AlignmentForm | None
    return_confidence: bool | None
    return_attention: bool | None
    return_bundle: bool | None


class OptionArguments(ScoringArguments, total=False):
    """Options of a translation; docs/options.md describes them."""

    max_tokens: int | None
    beam_width: int | None
    coverage_penalty: float | None
    patience: float | None
    early_stopping: bool | None
    return_source_tokens: bool | None
    num_return_sequences: int | None
    return_alternatives: bool | None
    prefix: str | Sequence[str] | None
    min_tokens: int | None
    max_length_ratio: float | None
    min_length_ratio: float | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None
    repetition_penalty: float | None
    no_repeat_ngram_size: int | None
    suppress: str | Sequence[str] | None
    glossary: Mapping[str, str] | None
    keep_placeholders: bool | None
    markup: Markup | Mapping[str, Any] | Sequence[Markup | Mapping[str, Any] | None] | None
    shortlist: bool | None
    split_sentences: bool | None
    max_sentence_tokens: int | None
    repair: bool | None

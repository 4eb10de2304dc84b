"""How a text is to be translated: what an application may ask, and the tensors that say so."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict

import numpy as np
import numpy.typing as npt

from dragoman_client.assessment import ALIGNMENT_FORMS, AlignmentForm

ASSESSMENTS: Final = ("token_scores", "alignments", "confidences", "attention")
"""Names of the tensors with what the model thinks of its translations."""

Array = npt.NDArray[Any]

_MAX_INT32 = 2**31 - 1
_MAX_INT64 = 2**63 - 1
_WHOLE_NUMBERS: Final = {
    "max_tokens": (1, _MAX_INT32),
    "beam_width": (1, _MAX_INT32),
    "num_return_sequences": (1, _MAX_INT32),
    "min_tokens": (0, _MAX_INT32),
    "no_repeat_ngram_size": (1, _MAX_INT32),
    "top_k": (1, _MAX_INT32),
    "max_sentence_tokens": (1, _MAX_INT32),
    "seed": (0, _MAX_INT64),
}
_NUMBERS: Final = (
    *("length_penalty", "coverage_penalty", "max_length_ratio", "min_length_ratio", "patience"),
    *("repetition_penalty", "temperature", "top_p"),
)
_SWITCHES: Final = (
    *("split_sentences", "return_scores", "return_alternatives", "early_stopping"),
    *("keep_placeholders", "return_token_scores", "return_confidence", "return_attention"),
)


class OptionArguments(TypedDict, total=False):
    """The fields of `TranslationOptions` as keyword arguments."""

    source_language: str | None
    target_language: str | None
    max_tokens: int | None
    beam_width: int | None
    length_penalty: float | None
    split_sentences: bool | None
    num_return_sequences: int | None
    return_scores: bool | None
    min_tokens: int | None
    max_length_ratio: float | None
    min_length_ratio: float | None
    prefix: str | None
    return_alternatives: bool | None
    patience: float | None
    early_stopping: bool | None
    repetition_penalty: float | None
    no_repeat_ngram_size: int | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None
    suppress: Sequence[str] | None
    glossary: Mapping[str, str] | None
    keep_placeholders: bool | None
    return_token_scores: bool | None
    return_alignments: AlignmentForm | None
    return_confidence: bool | None
    coverage_penalty: float | None
    max_sentence_tokens: int | None
    return_attention: bool | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class TranslationOptions:
    """How to translate; what is None is the server's choice.

    Args:
        source_language: language of the texts, such as "en", or "auto": found out text by text.
        target_language: language to translate into, such as "de".
        max_tokens: most tokens to write for a text, at least 1.
        beam_width: hypotheses that the search keeps, at least 1; 1 is greedy.
        length_penalty: exponent of the length by which scores are divided; higher favours longer,
            and None is the model's.
        split_sentences: whether the server cuts a text into sentences and translates each.
        num_return_sequences: how many translations of each text are wanted, at most the beam's
            width; the others are `Translation.alternatives`.
        return_scores: whether the translations' scores are wanted.
        min_tokens: fewest tokens of a translation.
        max_length_ratio: most tokens of a translation for each of its text.
        min_length_ratio: fewest of those.
        prefix: how each translation begins.
        return_alternatives: whether the translations of a text are to differ in the token behind
            the prefix.
        patience: how many times as many finished hypotheses as the beam is wide end the search.
        early_stopping: False lets the search go on until nothing better can come.
        repetition_penalty: what the log-probabilities of tokens that were said are multiplied by.
        no_repeat_ngram_size: of so many tokens no run comes twice.
        temperature: sample tokens: above 1 more evenly, below 1 more from the best.
        top_k: draw from so many of the best.
        top_p: draw from the best ones that have this much probability together.
        seed: draw as another time with this seed.
        suppress: words that no translation holds.
        glossary: what the translation of a text that holds a term shall hold for it.
        keep_placeholders: whether names in braces, tags, addresses and numbers stay as they are.
        return_token_scores: whether the log-probabilities of their tokens are wanted.
        return_alignments: "hard" for links between words, "soft" for the weights behind them.
        return_confidence: whether the log-probability of a token, on average, is wanted.
        coverage_penalty: how much a hypothesis loses that leaves words of its text out.
        max_sentence_tokens: with `split_sentences`, longer sentences are cut, best at the end of a
            clause.
        return_attention: whether the attention weights of every head are wanted.

    Raises:
        TypeError: a value of another type; True is no number.
        ValueError: a value out of range.
    """

    source_language: str | None = None
    target_language: str | None = None
    max_tokens: int | None = None
    beam_width: int | None = None
    length_penalty: float | None = None
    split_sentences: bool | None = None
    num_return_sequences: int | None = None
    return_scores: bool | None = None
    min_tokens: int | None = None
    max_length_ratio: float | None = None
    min_length_ratio: float | None = None
    prefix: str | None = None
    return_alternatives: bool | None = None
    patience: float | None = None
    early_stopping: bool | None = None
    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    suppress: Sequence[str] | None = None
    glossary: Mapping[str, str] | None = None
    keep_placeholders: bool | None = None
    return_token_scores: bool | None = None
    return_alignments: AlignmentForm | None = None
    return_confidence: bool | None = None
    coverage_penalty: float | None = None
    max_sentence_tokens: int | None = None
    return_attention: bool | None = None

    def __post_init__(self) -> None:
        """Check types and ranges."""
        for name in ("source_language", "target_language", "prefix", "return_alignments"):
            self._check_type(name, str)
        for name in ("source_language", "target_language"):
            if getattr(self, name) == "":
                raise ValueError(f"{name} is empty: give a language such as 'de', or None")
        for name, (least, most) in _WHOLE_NUMBERS.items():
            self._check_type(name, int)
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise ValueError(f"{name} is {value}: it must lie in {least}..{most}")
        for name in _NUMBERS:
            self._check_type(name, int, float)
            value = getattr(self, name)
            if value is not None and not _fits_float32(value):
                raise ValueError(f"{name} is {value}: it must be finite")
        for name in _SWITCHES:
            self._check_type(name, bool)
        if self.return_alignments not in (None, *ALIGNMENT_FORMS):
            raise ValueError(
                f"return_alignments is {self.return_alignments!r}: give one of {ALIGNMENT_FORMS}"
            )
        self._check_texts()

    @property
    def assessed(self) -> tuple[str, ...]:
        """Outputs with what the model thinks of its translations, as far as they are wanted."""
        wanted = (
            *(self.return_token_scores, self.return_alignments),
            *(self.return_confidence, self.return_attention),
        )
        return tuple(name for name, one in zip(ASSESSMENTS, wanted, strict=True) if one)

    def tensors(self) -> dict[str, Array]:
        """Input tensors by name, of what is not None, each of shape [1, values].

        Raises:
            ValueError: a text that UTF-8 cannot write.
        """
        fields = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))
        return {name: _tensor(name, value) for name, value in fields if value is not None}

    def _check_texts(self) -> None:
        """Refuse words and terms that are no texts."""
        words, terms = self.suppress, self.glossary
        if words is not None and (isinstance(words, str) or not all(map(_is_text, words))):
            raise TypeError("suppress must be a sequence of str")
        if terms is not None and not (
            isinstance(terms, Mapping) and all(map(_is_text, (*terms, *terms.values())))
        ):
            raise TypeError("glossary must be a mapping of str to str")

    def _check_type(self, name: str, *types: type) -> None:
        """Refuse a value of another type; bool is an int to Python, but not here."""
        value = getattr(self, name)
        if value is None or (type(value) is bool and bool in types):
            return
        if type(value) is bool or not isinstance(value, types):
            expected = " or ".join(kind.__name__ for kind in types)
            raise TypeError(f"{name} must be {expected}, got {type(value).__name__}")


def _tensor(name: str, value: Any) -> Array:
    """An option as the model's input [1, values]."""
    if name == "glossary":
        value = json.dumps(dict(value), ensure_ascii=False)
    if name in _WHOLE_NUMBERS:
        return np.array([[value]], np.int64 if name == "seed" else np.int32)
    if name in _NUMBERS:
        return np.array([[value]], np.float32)
    if name in _SWITCHES:
        return np.array([[value]], np.bool_)
    texts = [value] if isinstance(value, str) else value
    return np.array([[encode(text, name) for text in texts]], np.object_)


def encode(text: str, what: str) -> bytes:
    """UTF-8 of a text."""
    if not isinstance(text, str):
        raise TypeError(f"{what} must be str, got {type(text).__name__}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} holds a lone surrogate at character {error.start}") from error


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _fits_float32(value: float) -> bool:
    """Whether a number is finite, also as float32."""
    return math.isfinite(value) and abs(value) <= float(np.finfo(np.float32).max)

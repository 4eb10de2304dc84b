"""What is asked and answered of given translations: the tensors of Triton's model `score`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TypedDict

from dragoman_client.assessment import AlignmentForm, Alignments, Attention, TokenScores
from dragoman_client.options import Array, TranslationOptions
from dragoman_client.request import build_inputs, encode_texts, read_assessments


class ScoringArguments(TypedDict, total=False):
    """Options of scoring as keyword arguments; see `TranslationOptions`."""

    source_language: str | None
    target_language: str | None
    length_penalty: float | None
    return_token_scores: bool | None
    return_alignments: AlignmentForm | None
    return_attention: bool | None


@dataclasses.dataclass(frozen=True)
class PairScore:
    """What the model thinks of a given translation.

    Attributes:
        score: the sum of the tokens' log-probabilities over the length penalty.
        confidence: the log-probability of a token on average, the end symbol included.
        token_scores: where `return_token_scores` asked for them.
        alignments: in the form for which `return_alignments` asked.
        elapsed_s: as that of `Translation`.
        attention: where `return_attention` asked for it.
    """

    score: float
    confidence: float
    token_scores: TokenScores | None = None
    alignments: Alignments | None = None
    elapsed_s: float = dataclasses.field(default=0.0, compare=False)
    attention: Attention | None = None

    @property
    def perplexity(self) -> float:
        """Of the translation, by token."""
        try:
            return math.exp(-self.confidence)
        except OverflowError:
            return math.inf


def check_pairs(
    texts: str | Sequence[str], targets: str | Sequence[str], options: ScoringArguments
) -> TranslationOptions:
    """Check the arguments of a client.

    Raises:
        TypeError: something that is no text, or an option of another type.
        ValueError: an option out of range, or not a translation for each text.
    """
    unknown = set(options) - set(ScoringArguments.__annotations__)
    if unknown:
        raise TypeError(f"score has no option {min(unknown)!r}")
    for name, given in (("texts", texts), ("targets", targets)):
        if not isinstance(given, Sequence) or isinstance(given, bytes | bytearray):
            raise TypeError(f"{name} must be str or a sequence of str, got {type(given).__name__}")
    checked = TranslationOptions(**options)
    if isinstance(texts, str) != isinstance(targets, str):
        raise TypeError("texts and targets must both be str, or both sequences of str")
    if not isinstance(texts, str) and len(texts) != len(targets):
        raise ValueError(f"{len(texts)} texts and {len(targets)} targets: give one for each")
    return checked


def pair_inputs(
    texts: Sequence[str], targets: Sequence[str], options: TranslationOptions
) -> dict[str, Array]:
    """The model's input tensors, as `build_inputs` writes them, with `target_input`.

    Raises:
        TypeError: a text that is no `str`.
        ValueError: a text that UTF-8 cannot write.
    """
    encoded = encode_texts(targets, "target")
    return {**build_inputs(texts, options), "target_input": encoded}


def read_scores(
    outputs: Mapping[str, Array | None], count: int, elapsed_s: float, options: TranslationOptions
) -> list[PairScore]:
    """Read the model's answer; see `request.read_outputs`.

    Raises:
        ServerError: a tensor is missing, of another length, or not what it should hold.
    """
    # Scores and confidences are always in the answer.
    told = dataclasses.replace(options, return_scores=True, return_confidence=True)
    found = read_assessments(outputs, count, told)
    return [PairScore(elapsed_s=elapsed_s, **one) for one in found]

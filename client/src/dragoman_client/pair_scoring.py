"""What is asked and answered of given translations: the tensors of Triton's model `score`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from dragoman_options.arguments import ScoringArguments
from dragoman_options.table import SCORE, check

from dragoman_client.assessment import Alignments, Attention, TokenScores
from dragoman_client.request import build_inputs, read_assessments
from dragoman_client.tensors import Array, text_tensor


@dataclasses.dataclass(frozen=True)
class PairScore:
    """What the model thinks of a given translation.

    Attributes:
        score: the sum of the tokens' log-probabilities over the length penalty.
        confidence: the log-probability of a token on average, the end symbol included.
        token_scores: as those of `Translation`, like what follows.
        alignments: links between words, or the weights behind them.
        elapsed_s: with retries.
        attention: the weights of every head.
        bundle: identity of the bundle that scored.
    """

    score: float
    confidence: float
    token_scores: TokenScores | None = None
    alignments: Alignments | None = None
    elapsed_s: float = dataclasses.field(default=0.0, compare=False)
    attention: Attention | None = None
    bundle: str | None = None

    @property
    def perplexity(self) -> float:
        """Of the translation, by token."""
        try:
            return math.exp(-self.confidence)
        except OverflowError:
            return math.inf


def check_pairs(
    texts: str | Sequence[str], targets: str | Sequence[str], options: ScoringArguments
) -> dict[str, Any]:
    """Check the arguments of a client, and return the options by name.

    Raises:
        TypeError: something that is no text, or an option of another type.
        ValueError: an option out of range, or not a translation for each text.
    """
    for name, given in (("texts", texts), ("targets", targets)):
        if not isinstance(given, Sequence) or isinstance(given, bytes | bytearray):
            raise TypeError(f"{name} must be str or a sequence of str, got {type(given).__name__}")
    checked = check(options, SCORE)
    if isinstance(texts, str) != isinstance(targets, str):
        raise TypeError("texts and targets must both be str, or both sequences of str")
    if not isinstance(texts, str) and len(texts) != len(targets):
        raise ValueError(f"{len(texts)} texts and {len(targets)} targets: give one for each")
    return checked


def pair_inputs(
    texts: Sequence[str], targets: Sequence[str], options: Mapping[str, Any]
) -> dict[str, Array]:
    """The model's input tensors, as `build_inputs` writes them, with `target_input`.

    Raises:
        TypeError: a text that is no `str`.
        ValueError: a text that UTF-8 cannot write.
    """
    encoded = text_tensor(targets, "target")
    return {**build_inputs(texts, options), "target_input": encoded}


def read_scores(
    outputs: Mapping[str, Array | None], count: int, elapsed_s: float, options: Mapping[str, Any]
) -> list[PairScore]:
    """Read the model's answer; see `request.read_outputs`.

    Raises:
        ServerError: a tensor is missing, of another length, or not what it should hold.
    """
    # Scores and confidences are always in the answer.
    told = {**options, "return_scores": True, "return_confidence": True}
    found = read_assessments(outputs, count, told, SCORE)
    return [PairScore(elapsed_s=elapsed_s, **one) for one in found]

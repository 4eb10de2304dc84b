"""Scoring of given translations: the tensors of Triton's model `score`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from dragoman_options.arguments import ScoringArguments
from dragoman_options.table import SCORE, Assessed, check

from dragoman_client.core.request import build_inputs, read_fields
from dragoman_client.core.tensors import Values, text_values


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairScore(Assessed):
    """The model's scores for a given translation; see `Translation` for the other fields.

    Attributes:
        elapsed_s: duration of the request, with retries.
    """

    score: float
    confidence: float
    elapsed_s: float = dataclasses.field(default=0.0, compare=False)

    @property
    def perplexity(self) -> float:
        """Per-token perplexity of the translation."""
        try:
            return math.exp(-self.confidence)
        except OverflowError:
            return math.inf


def check_pairs(
    texts: str | Sequence[str], targets: str | Sequence[str], options: ScoringArguments
) -> dict[str, Any]:
    """Validate the arguments of a client, and return the options by name.

    Raises:
        TypeError: a text is not a `str`, or an option has the wrong type.
        ValueError: an option is out of range, or there are more or fewer targets than texts.
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
) -> dict[str, Values]:
    """Returns the inputs of `build_inputs`, with `target_input`.

    Raises:
        TypeError: a text is not a `str`.
        ValueError: a text cannot be encoded in UTF-8.
    """
    return {**build_inputs(texts, options), "target_input": text_values(targets, "target")}


def read_scores(
    outputs: Mapping[str, Values | None], count: int, elapsed_s: float, options: Mapping[str, Any]
) -> list[PairScore]:
    """Parse the model's answer; see `request.read_outputs`.

    Raises:
        ServerError: a tensor is missing, or has the wrong length or content.
    """
    rows = read_fields(outputs, count, options, SCORE)
    return [PairScore(elapsed_s=elapsed_s, **row) for row in rows]

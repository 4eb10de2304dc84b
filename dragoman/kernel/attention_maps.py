"""What every head of a model looked at while it read a text and wrote a translation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Kind = Literal["encoder", "decoder", "cross"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")
Weights = npt.NDArray[np.float32]

MOST_WEIGHTS = 1_000_000
"""Of one request or one picture."""
_DIGITS = 6
"""Of a weight in JSON: fp32 has no more."""


@dataclass(frozen=True, eq=False)
class Attention:
    """Attention weights, and the tokens that they lie between.

    In each step the decoder reads one of the T tokens in `read` and says the one of `said` at the
    same place, so that the tokens of `said` are those of `read` one step on.
    """

    source: tuple[str, ...]
    """The S tokens of the text, its tag and end symbol among them."""
    read: tuple[str, ...]
    """The T tokens that the decoder read, the start symbol first."""
    said: tuple[str, ...]
    """The T tokens that it said, the end symbol last if the translation came to its end."""
    encoder: Weights
    """[L, H, S, S], of the encoder's self-attention."""
    decoder: Weights
    """[L, H, T, T], of the decoder's, zero above the diagonal."""
    cross: Weights
    """[L, H, T, S], of the decoder's attention to the encoder."""

    def weights(self, kind: Kind) -> Weights:
        """Those of one kind, [L, H, queries, keys]."""
        return {"encoder": self.encoder, "decoder": self.decoder, "cross": self.cross}[kind]

    def queries(self, kind: Kind) -> tuple[str, ...]:
        """The tokens that look."""
        return self.source if kind == "encoder" else self.said

    def keys(self, kind: Kind) -> tuple[str, ...]:
        """The tokens that are looked at."""
        return self.read if kind == "decoder" else self.source

    def to_json(self) -> str:
        """As an object of JSON, whose weights are nested lists."""
        found: dict[str, Any] = {"source": self.source, "read": self.read, "said": self.said}
        # A float64 prints six digits where a float32 would print nine.
        rounded = {kind: self.weights(kind).astype(np.float64).round(_DIGITS) for kind in KINDS}
        found |= {kind: weights.tolist() for kind, weights in rounded.items()}
        return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def count_weights(
    lengths: tuple[int, int], encoder_layers: int, decoder_layers: int, heads: int
) -> int:
    """How many weights there are for S source tokens and T steps of the decoder."""
    src, tgt = lengths
    return heads * (encoder_layers * src * src + decoder_layers * tgt * (tgt + src))


def shifted(said: Sequence[str], begin: str) -> tuple[str, ...]:
    """What the decoder reads to say tokens, one after the other."""
    return (begin, *said)[: len(said)]

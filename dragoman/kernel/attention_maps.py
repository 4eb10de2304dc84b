"""Attention weights of every head of a model, for a text and its translation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:  # the gateway, which only draws them, starts faster without NumPy
    import numpy as np
    import numpy.typing as npt

    Weights = npt.NDArray[np.float32]

Kind = Literal["encoder", "decoder", "cross"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")

MOST_WEIGHTS = 1_000_000
"""Limit for one request or one picture."""
_DIGITS = 6
"""Decimals of a weight in JSON, about the precision of fp32."""


@dataclass(frozen=True, eq=False)
class Attention:
    """Attention weights, with their query and key tokens.

    In step t the decoder reads `read[t]` and generates `said[t]`. So `read` is `said`, shifted
    right by one.
    """

    source: tuple[str, ...]
    """The S tokens of the text, with tag and end symbol."""
    read: tuple[str, ...]
    """The T tokens that the decoder read, the start symbol first."""
    said: tuple[str, ...]
    """The T tokens that it generated, the end symbol last if the translation is complete."""
    encoder: Weights
    """[L, H, S, S], the encoder's self-attention."""
    decoder: Weights
    """[L, H, T, T], the decoder's self-attention, zero above the diagonal; L is 0 if the decoder is
    recurrent."""
    cross: Weights
    """[L, H, T, S], cross-attention."""
    alignment_heads: tuple[tuple[int, int], ...] = field(default=(), kw_only=True)
    """Layer and head of the cross-attention that aligns words best, if the model names any."""
    aligns_when_read: bool = field(default=False, kw_only=True)
    """Whether they align the token that a step reads, not the one that it generates."""

    def weights(self, kind: Kind) -> Weights:
        """Returns the weights of one kind, [L, H, queries, keys]."""
        return {"encoder": self.encoder, "decoder": self.decoder, "cross": self.cross}[kind]

    def queries(self, kind: Kind) -> tuple[str, ...]:
        """Returns the query tokens: of cross-attention, those that the alignment heads align."""
        if kind == "encoder":
            return self.source
        return self.read if kind == "cross" and self.aligns_when_read else self.said

    def keys(self, kind: Kind) -> tuple[str, ...]:
        """Returns the key tokens."""
        return self.read if kind == "decoder" else self.source

    def to_json(self) -> str:
        """Returns a JSON object, with the weights as nested lists."""
        members: dict[str, Any] = {"source": self.source, "read": self.read, "said": self.said}
        # A float64 prints six digits where a float32 would print nine.
        rounded = {kind: self.weights(kind).astype("float64").round(_DIGITS) for kind in KINDS}
        members |= {kind: weights.tolist() for kind, weights in rounded.items()}
        members["alignment_heads"] = self.alignment_heads
        members["aligns_when_read"] = self.aligns_when_read
        return json.dumps(members, ensure_ascii=False, separators=(",", ":"))


def count_weights(
    lengths: tuple[int, int], encoder_layers: int, decoder_layers: int, heads: int
) -> int:
    """Returns the number of weights for S source tokens and T decoder steps."""
    src, tgt = lengths
    return heads * (encoder_layers * src * src + decoder_layers * tgt * (tgt + src))


def shifted(said: Sequence[str], begin: str) -> tuple[str, ...]:
    """Returns the tokens that the decoder reads to generate `said`: shifted right by one."""
    return (begin, *said)[: len(said)]

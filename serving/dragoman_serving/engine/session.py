"""What the engine needs of a runtime that executes the graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from dragoman_serving.engine.arrays import Floats, Ids, KeysValues
from dragoman_serving.engine.cache import Cache, CacheShape


class Ranking(Protocol):
    """Reads a step's scores, wherever these lie."""

    def argmax(self, logits: Any) -> Ids:
        """Each row's best token [R], of what the last step returned."""
        ...

    def best(self, logits: Any, number: int) -> tuple[Floats, Ids]:
        """Log-probabilities [R, K] of each row's best tokens, best first, and their ids [R, K].

        `logits` are what the last step returned; K is `number` or more.
        """
        ...

    def log_probs(self, logits: Any, rows: Ids) -> Floats:
        """Log-probabilities [N, V] of every token in N rows of what the last step returned."""
        ...


class Session(Ranking, Protocol):
    """The bundle's graphs, ready to run; several threads may, each with caches of its own."""

    @property
    def cache_shape(self) -> CacheShape:
        """What keys and values take."""
        ...

    @property
    def vocab_size(self) -> int:
        """V."""
        ...

    @property
    def pads_sources(self) -> bool:
        """Whether the encoder works on padding too."""
        ...

    def encode(self, src_ids: Ids, src_lengths: Ids) -> Sequence[KeysValues]:
        """Run the encoder.

        Args:
            src_ids: [B, S], padded.
            src_lengths: [B].

        Returns:
            Keys and values [B, H, S, D] for cross-attention, by decoder layer and kind.
        """
        ...

    def step(self, cache: Cache, input_ids: Ids, positions: Ids) -> Floats:
        """Run the decoder for one token a row, writing the row's key and value into the cache.

        Args:
            cache: of R rows, with room at every position.
            input_ids: [R], the token before the one that is sought; at position 0 the same for
                all rows of a sentence.
            positions: [R], its place in the row, from 0.

        Returns:
            Scores [R, V] of every token, up to a constant a row; the next step overwrites them.
        """
        ...

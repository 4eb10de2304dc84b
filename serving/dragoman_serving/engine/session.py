"""Protocols of a runtime that runs the graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from dragoman_serving.engine.arrays import Floats, Ids, KeysValues
from dragoman_serving.engine.cache import Cache, CacheShape


class Ranking(Protocol):
    """Reads a step's scores, in host or device memory."""

    def argmax(self, logits: Any) -> Ids:
        """Returns each row's best token [R], from the result of the last step."""
        ...

    def best(self, logits: Any, number: int) -> tuple[Floats, Ids]:
        """Returns log-probabilities [R, K] and ids [R, K] of each row's top-k tokens, best first.

        `logits` is the result of the last step; K is `number` or more.
        """
        ...

    def log_probs(self, logits: Any, rows: Ids) -> Floats:
        """Returns log-probabilities [N, V] of every token in N rows of the last step's result."""
        ...


class Session(Ranking, Protocol):
    """The bundle's graphs, ready to run; several threads may use it, each with its own caches."""

    @property
    def cache_shape(self) -> CacheShape:
        """Shape of the keys and values."""
        ...

    @property
    def vocab_size(self) -> int:
        """Size V of the vocabulary."""
        ...

    @property
    def pads_sources(self) -> bool:
        """Whether the encoder needs padding, and computes on it."""
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
        """Run the decoder for one token per row, and write its key and value into the cache.

        Args:
            cache: cache of R rows, with space at every position.
            input_ids: [R], the token before the one to predict; at position 0 the same for all
                rows of a sentence.
            positions: [R], its position in the row, from 0.

        Returns:
            Scores [R, V] of every token, up to a constant per row; the next step overwrites them.
        """
        ...

"""What the engine needs of a runtime that executes the graphs."""

from __future__ import annotations

from typing import Protocol

from serving.engine.cache import Cache, Floats, Ids


class Session(Protocol):
    """The bundle's graphs, ready to run. Used by one thread at a time."""

    def encode(self, src_ids: Ids, src_lengths: Ids) -> Cache:
        """Run the encoder.

        Args:
            src_ids: [B, S], padded.
            src_lengths: [B].

        Returns:
            A cache with one row a sentence.
        """
        ...

    def step(self, cache: Cache, input_ids: Ids, positions: Ids) -> tuple[Floats, Ids]:
        """Run the decoder for one token a row, writing the row's key and value into the cache.

        Args:
            cache: of R rows, with room at every position.
            input_ids: [R], the token before the one that is sought.
            positions: [R], its place in the row, from 0.

        Returns:
            Log-probabilities [R, K] of each row's best tokens, best first, and their ids [R, K].
        """
        ...

    def reorder(self, cache: Cache, rows: Ids) -> None:
        """Make the cached tokens those of `rows` [N], in that order."""
        ...

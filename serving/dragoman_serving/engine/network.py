"""Protocols of a model that is ready to run, and of the sentences that it decodes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Protocol

from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.manifest import SpecialIds
from dragoman_serving.engine.sentence import Sentence


class SearchResults(Protocol):
    """The results of searches, by slot."""

    def result(self, slot: int) -> Hypothesis:
        """Returns the best translation of a finished search."""
        ...

    def next_best(self, slot: int, count: int) -> tuple[Hypothesis, ...]:
        """Returns more hypotheses of a finished search, best first, at most `count`.

        Together with the result, there are as many as the beam width or as were requested.
        """
        ...

    def certain(self, slot: int) -> tuple[int, ...]:
        """Returns the stable prefix of a search, which its translation will begin with."""
        ...


class Decoding(Protocol):
    """Sentences with searches of the same kind that step together, one slot each.

    Each sentence may be at another position. Slots are without gaps, in the order in which the
    sentences joined. Only one thread may use it.
    """

    @property
    def rows(self) -> int:
        """Number of rows in flight: one for each hypothesis of a sentence's searches."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of the caches."""
        ...

    def join(self, sentences: Sequence[Sentence], alone: bool) -> None:
        """Encode sentences and add them; `alone` as for `step`."""

    def step(self, alone: bool, pending: ctypes.c_int64 | None = None) -> tuple[int, Sequence[int]]:
        """Run a decoding step for every sentence.

        Args:
            alone: whether nothing else is in flight, so that all cores may be used.
            pending: whether waiting sentences may join, 0 or 1, which changes meanwhile. If given,
                a few more steps may follow while it is 0 and no sentence is finished.

        Returns:
            The number of steps, and slots of the finished sentences, in ascending order.
        """
        ...

    @property
    def found(self) -> SearchResults:
        """The results of the searches."""
        ...

    def leave(self, slots: Sequence[int]) -> None:
        """Free slots, given in ascending order; from the highest on, the last slot moves there."""


class Measured(Protocol):
    """An object that knows the memory of a model."""

    def most_bytes(self, width: int, slots: int) -> int:
        """Returns the maximum bytes of a decoding's caches, including their growth.

        Args:
            width: rows of each sentence.
            slots: maximum number of sentences.
        """
        ...


class Network(Measured, Protocol):
    """A model that is ready to run, in several threads."""

    @property
    def most_rows(self) -> int | None:
        """Maximum rows of a step, if the model was built for a fixed number; else None."""
        ...

    @property
    def pads_sources(self) -> bool:
        """Whether the encoder needs padding, and computes on it."""
        ...

    @property
    def gains_alone(self) -> bool:
        """Whether a step of few rows is faster with all cores."""
        ...

    def begin(self, width: int, special_ids: SpecialIds, slots: int, searches: int = 1) -> Decoding:
        """Returns a decoding for the calling thread, with nothing in flight yet.

        Args:
            width: beam width of a search.
            special_ids: special ids of the model's vocabulary.
            slots: expected maximum of sentences. If more join, the caches take more than
                `most_bytes`.
            searches: number of searches of each sentence.
        """
        ...

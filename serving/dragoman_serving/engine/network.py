"""What the engine needs of a model that is ready to run, and of the sentences that it decodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.manifest import SpecialIds
from dragoman_serving.engine.sentence import Sentence


class Found(Protocol):
    """What searches found, by slot."""

    def result(self, slot: int) -> Hypothesis:
        """The translation that a search found that is done."""
        ...

    def next_best(self, slot: int, count: int) -> tuple[Hypothesis, ...]:
        """What a search that is done found beside its result, best first; at most so many.

        Together with the result there are as many as the search is wide, or as were asked for.
        """
        ...

    def certain(self, slot: int) -> tuple[int, ...]:
        """The tokens that a search's translation will begin with."""
        ...


class Decoding(Protocol):
    """Sentences with searches alike that step together, a slot each, whatever place each is at.

    Slots are without gaps, in the order in which the sentences joined. One thread uses it.
    """

    @property
    def rows(self) -> int:
        """Rows in flight: a sentence has as many as its searches are wide."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of the caches."""
        ...

    def join(self, sentences: Sequence[Sentence], alone: bool) -> None:
        """Encode sentences and take them in; `alone` as for `step`."""

    def step(self, alone: bool) -> Sequence[int]:
        """Bring every sentence one token further.

        Args:
            alone: nothing else is in flight, so that all the cores may be used.

        Returns:
            Slots of the sentences that are done, in rising order.
        """
        ...

    @property
    def found(self) -> Found:
        """What the searches have found."""
        ...

    def leave(self, slots: Sequence[int]) -> None:
        """Free slots, given in rising order; from the highest on, the last one takes its place."""


class Measured(Protocol):
    """What knows the sizes of a model."""

    def most_bytes(self, width: int, slots: int) -> int:
        """Bytes that the caches of a decoding take at most, also while they grow.

        Args:
            width: rows of every sentence.
            slots: sentences that it may have.
        """
        ...


class Network(Measured, Protocol):
    """A model, ready to run in several threads."""

    @property
    def most_rows(self) -> int | None:
        """Rows that a step may have, where something was built for so many."""
        ...

    @property
    def pads_sources(self) -> bool:
        """Whether the encoder works on padding too."""
        ...

    @property
    def gains_alone(self) -> bool:
        """Whether a step of few rows is faster with all the cores."""
        ...

    def begin(self, width: int, special_ids: SpecialIds, slots: int, searches: int = 1) -> Decoding:
        """Nothing in flight yet, in the calling thread.

        Args:
            width: of a search.
            special_ids: of the model's vocabulary.
            slots: sentences. More may join all the same; its caches then take more than
                `most_bytes`.
            searches: of every sentence.
        """
        ...

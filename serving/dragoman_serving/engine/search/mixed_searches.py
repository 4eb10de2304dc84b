"""Searches with guidance and without, side by side.

Those without are many, and made together; the others one by one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dragoman.kernel.errors import DragomanError
from dragoman.kernel.hypothesis import Hypothesis
from dragoman_serving.engine.arrays import Copy, Floats, Ids, Rank
from dragoman_serving.engine.network import Found
from dragoman_serving.engine.search.constrained_search import GuidedSearch, begin_guided_search
from dragoman_serving.engine.search.plain_search import Advance, Searches
from dragoman_serving.engine.sentence import Sentence
from dragoman_serving.engine.session import Ranking

log = logging.getLogger(__name__)


class SearchFailure(DragomanError):
    """A search broke, and no other with it."""


class GuidedSearches:
    """The searches of some slots, by slot."""

    def __init__(self, width: int, end_id: int, rank: Rank) -> None:
        """Begin without searches; `rank` finds the best scores."""
        self._width = width
        self._end_id = end_id
        self._rank = rank
        self._by_slot: dict[int, GuidedSearch] = {}
        self._failed: set[int] = set()
        """Slots whose searches broke."""

    def __bool__(self) -> bool:
        """Whether there is one."""
        return bool(self._by_slot)

    def __contains__(self, slot: int) -> bool:
        """Whether the search of a slot is here."""
        return slot in self._by_slot

    def join(self, sentences: Sequence[Sentence], first: int) -> None:
        """Begin the searches of those with guidance, in the slots from `first` on."""
        for slot, sentence in enumerate(sentences, start=first):
            if (guidance := sentence.options.guidance) is not None:
                self._by_slot[slot] = begin_guided_search(
                    sentence, guidance, self._end_id, self._rank
                )

    def advance(self, log_probs: Callable[[Ids], Floats], tokens: Ids) -> Advance:
        """Choose what their rows say next.

        Args:
            log_probs: gives those of N rows, [N, V].
            tokens: [R], what each row says next, in which theirs are written.

        Returns:
            `tokens`, copies to be made, and slots that are done, in rising order.
        """
        width = self._width
        slots = sorted(self._by_slot)
        rows = np.array([slot * width + place for slot in slots for place in range(width)])
        scores = log_probs(rows).reshape(len(slots), width, -1)
        copies: list[Copy] = []
        done: list[int] = []
        for slot, of_slot in zip(slots, scores, strict=True):
            search = self._by_slot[slot]
            try:
                continuation = search.advance(of_slot)
            except Exception:
                # What one request asks must not end the engine for all.
                log.exception("a search broke")
                self._failed.add(slot)
                continuation = None
            if continuation is None:
                done.append(slot)
                continue
            copies += continuation.write(slot * width, search.length, tokens)
        return Advance(tokens, copies, done)

    def result(self, slot: int) -> Hypothesis:
        """See `Searches`.

        Raises:
            SearchFailure: the search broke.
        """
        if slot in self._failed:
            raise SearchFailure("the search for this translation failed")
        return self._by_slot[slot].found()[0]

    def next_best(self, slot: int, count: int) -> tuple[Hypothesis, ...]:
        """See `Searches`.

        Where there are fewer, which rules that forbid almost all may come to, the last is repeated.
        """
        found = self._by_slot[slot].found()
        others = tuple(found[1 : 1 + count])
        return others + tuple(found[-1:]) * (count - len(others))

    def certain(self, slot: int) -> tuple[int, ...]:
        """See `Searches`."""
        return self._by_slot[slot].certain()

    def leave(self, slot: int, last: int) -> None:
        """Forget the search of a slot, if it is here; that of the last one moves there."""
        self._by_slot.pop(slot, None)
        self._failed.discard(slot)
        if last in self._failed:
            self._failed.remove(last)
            self._failed.add(slot)
        if last in self._by_slot:
            self._by_slot[slot] = self._by_slot.pop(last)


class MixedSearches:
    """Searches with and without guidance, beside each other; see `Searches`."""

    def __init__(self, plain: Searches, width: int, end_id: int, rank: Rank) -> None:
        """Begin without searches.

        Args:
            plain: of those without guidance.
            width: of every search.
            end_id: of the end symbol.
            rank: finds the best scores.
        """
        self._plain = plain
        self._guided = GuidedSearches(width, end_id, rank)
        self._slots = 0

    def join(self, sentences: Sequence[Sentence]) -> None:
        """See `Searches`."""
        self._plain.join(sentences)
        self._guided.join(sentences, self._slots)
        self._slots += len(sentences)

    def advance(self, ranking: Ranking, logits: Any) -> Advance:
        """See `Searches`."""
        plain = self._plain.advance(ranking, logits)
        if not self._guided:
            return plain
        guided = self._guided.advance(lambda rows: ranking.log_probs(logits, rows), plain.tokens)
        return Advance(
            guided.tokens, [*plain.copies, *guided.copies], sorted((*plain.done, *guided.done))
        )

    def found(self, slot: int) -> Found:
        """What the searches found of which a slot's is one."""
        return self._guided if slot in self._guided else self._plain

    def leave(self, slot: int) -> None:
        """See `Searches`."""
        self._slots -= 1
        self._plain.leave(slot)
        self._guided.leave(slot, self._slots)

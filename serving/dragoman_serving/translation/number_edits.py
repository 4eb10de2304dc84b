"""Finds where in a translation a number belongs, and corrects numbers without another search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher

import numpy as np
import numpy.typing as npt

from dragoman_serving.fidelity.numbers import Number, end_of_scale, localized, numbers_of
from dragoman_serving.fidelity.restored import Edit
from dragoman_serving.translation.edits import Aligned, begin_of_word
from dragoman_serving.translation.losses import WrongNumbers, is_repetition

_ADDITIONAL = 0.3
"""A number that only the translation has stands for one of the sentence if this share of the
strongest attention lies on it."""
_ALIKE = 0.6
"""Least share of equal digits in two numbers of which one may be the other with wrong digits."""
_MOST_REPEATED = 25
"""Characters between a number and its repetition that are part of what was repeated."""


def edit_of_number(
    aligned: Aligned, number: Number, additional: Sequence[Number], languages: tuple[str, str]
) -> Edit:
    """Where to write a number: at the additional one that attends to it, or before a word."""
    weights = aligned.on(number.begin, number.end)
    begin = max(0, aligned.pieces[int(weights.argmax())].end - 1) if weights.size else 0
    if (other := _linked(aligned, weights, additional)) is not None:
        begin = other.begin
    begin = next((extra.begin for extra in additional if extra.begin <= begin < extra.end), begin)
    begin = begin_of_word(aligned.text, begin)
    return Edit(begin, begin, localized(number.text, *languages))


def _linked(
    aligned: Aligned, weights: npt.NDArray[np.float32], additional: Sequence[Number]
) -> Number | None:
    """The additional number with the most attention to another number, unless it has little."""
    attention = [
        aligned.strongest_within(weights, number.begin, number.end) for number in additional
    ]
    if not attention or max(attention) < _ADDITIONAL * float(weights.max(initial=0.0)):
        return None
    return additional[int(np.argmax(attention))]


class NumberEdits:
    """The edits that correct the numbers of a translation."""

    def __init__(
        self, text: str, masked: str, wrong: WrongNumbers, languages: tuple[str, str]
    ) -> None:
        """Store what they follow from.

        Args:
            text: the translation, with stand-ins.
            masked: the same without the stand-ins.
            wrong: what is wrong with its numbers.
            languages: those of the source and of the translation.
        """
        self._text, self._masked, self._wrong, self._languages = text, masked, wrong, languages

    def simple(self) -> list[Edit]:
        """Returns the edits if only digits are wrong, or if numbers are repeated near each other.

        They are in order; empty: something else is wrong.
        """
        missing, _, additional = self._wrong
        if missing:
            pairs = list(zip(missing, additional, strict=False))
            if len(missing) != len(additional) or not all(_are_alike(*pair) for pair in pairs):
                return []
            return [self._swap(*pair) for pair in pairs]
        ends = [self._end_of_equal(number) for number in additional]
        return [
            Edit(end, number.end, "")
            for end, number in zip(ends, additional, strict=True)
            if end is not None and None not in ends
        ]

    def all(self, aligned: Aligned) -> Iterator[Edit]:
        """Yields the edits for all numbers, in any order.

        A missing number replaces the additional one that attends to it, or stands before the word
        that does. A repeated number is removed.
        """
        remaining = list(self._wrong.additional)
        for number in self._wrong.missing:
            weights = aligned.on(number.begin, number.end)
            if (other := _linked(aligned, weights, remaining)) is not None:
                remaining.remove(other)
                yield self._swap(number, other)
            else:
                edit = edit_of_number(aligned, number, (), self._languages)
                yield edit._replace(text=f"{edit.text} ")
        for number in remaining:
            if any(is_repetition(original, number) for original in self._wrong.repeated):
                end = self._end_of_equal(number)
                if end is None:
                    end = len(self._text[: number.begin].rstrip())
                yield Edit(end, number.end, "")

    def _swap(self, number: Number, other: Number) -> Edit:
        end = other.end
        if any(map(str.isalpha, number.text + other.text)):
            end = end_of_scale(self._text, end)
        return Edit(other.begin, end, localized(number.text, *self._languages))

    def _end_of_equal(self, number: Number) -> int | None:
        """The end of the equal number before a number, if only a few words are between them."""
        src, tgt = self._languages
        before = [
            earlier.end
            for earlier in numbers_of(self._masked[: number.begin], tgt, src, is_target=True)
            if not earlier.values.isdisjoint(number.values)
        ]
        if not before:
            return None
        between = self._text[before[-1] : number.begin]
        is_near = len(between) <= _MOST_REPEATED and not any(map(str.isdigit, between))
        return before[-1] if is_near and between in self._masked else None


def _are_alike(number: Number, other: Number) -> bool:
    """Whether a number may be another one with some wrong digits."""
    first, second = ("".join(filter(str.isdigit, compared.text)) for compared in (number, other))
    return SequenceMatcher(None, first, second, autojunk=False).ratio() >= _ALIKE


def without_overlaps(edits: Iterable[Edit], begin: int) -> list[Edit]:
    """Returns edits in order, without those before an index or within the one before."""
    kept: list[Edit] = []
    for edit in sorted(edits):
        if edit.begin >= begin:
            kept.append(edit)
            begin = edit.end
    return kept

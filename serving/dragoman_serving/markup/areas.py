"""The part of a translation that a code encloses, as its children take their places in it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from dragoman_options.markup import Span


@dataclass
class Area:
    """What a code encloses, and what of it its children have taken so far.

    Attributes:
        source: the first source unit, and the one behind the last.
        target: the same of the target.
        span: the characters of the target.
    """

    source: Span
    target: Span
    span: Span
    _taken_units: list[Span] = field(default_factory=list)
    _taken: list[Span] = field(default_factory=list)

    def is_free(self, units: Span) -> bool:
        """Whether no child has taken any of these units."""
        return any(begin <= units[0] and units[1] <= end for begin, end in self.free_gaps())

    def free_gaps(self) -> Iterator[Span]:
        """Runs of gaps that no child encloses, each by its first and its last gap."""
        begin = self.target[0]
        for taken_begin, taken_end in self._taken_units:
            yield begin, taken_begin
            begin = taken_end
        yield begin, self.target[1]

    def take(self, units: Span, core: Span, span: Span) -> Span:
        """Give units to a child.

        Args:
            units: of the target, which are free.
            core: their characters.
            span: the characters that the child should have: `core`, and white space around it.

        Returns:
            `span` without what belongs to others.
        """
        low, high = self.span
        before, behind = bisect_left(self._taken, (core[0],)), bisect_left(self._taken, (core[1],))
        if before:
            low = max(low, self._taken[before - 1][1])
        if behind < len(self._taken):
            high = min(high, self._taken[behind][0])
        found = max(span[0], low), min(span[1], high)
        insort(self._taken_units, units)
        insort(self._taken, found)
        return found

    def take_gap(self, gap: Span, span: Span) -> Span:
        """Give a place between units to a child without units.

        Args:
            gap: the characters of the white space between the units.
            span: the part of it that the child should have; an empty one as a rule.

        Returns:
            The nearest part that belongs to nobody else.
        """
        begin = min(max(span[0], self.span[0]), self.span[1])
        index = bisect_left(self._taken, (begin,))
        if index and begin < self._taken[index - 1][1]:
            taken_begin, taken_end = self._taken[index - 1]
            begin = taken_begin if taken_begin >= gap[0] else taken_end
        end = min(max(span[1], begin), self.span[1])
        index = bisect_right(self._taken, (begin, begin))
        if index < len(self._taken):
            end = min(end, self._taken[index][0])
        found = begin, end
        insort(self._taken, found)
        return found

"""The area of a translation that a code encloses, in which its children are placed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from dragoman_options.markup import Span


@dataclass
class Area:
    """The units that a code encloses, and those of them that its children have taken so far.

    Attributes:
        source: the first source unit, and the one after the last.
        target: the same for the target.
        span: the span of target characters.
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
        """Yields the runs of gaps that no child encloses, each as its first and last gap."""
        begin = self.target[0]
        for taken_begin, taken_end in self._taken_units:
            yield begin, taken_begin
            begin = taken_end
        yield begin, self.target[1]

    def take(self, units: Span, core: Span, span: Span) -> Span:
        """Give units to a child.

        Args:
            units: free target units.
            core: the span of their characters.
            span: the wanted span of the child: `core`, and white space around it.

        Returns:
            `span` without the characters of other children.
        """
        low, high = self.span
        before, behind = bisect_left(self._taken, (core[0],)), bisect_left(self._taken, (core[1],))
        if before:
            low = max(low, self._taken[before - 1][1])
        if behind < len(self._taken):
            high = min(high, self._taken[behind][0])
        clipped = max(span[0], low), min(span[1], high)
        insort(self._taken_units, units)
        insort(self._taken, clipped)
        return clipped

    def take_gap(self, gap: Span, span: Span) -> Span:
        """Give a position between units to a child without units.

        Args:
            gap: the span of the white space between the units.
            span: the wanted part of it, usually empty.

        Returns:
            The nearest part that no other child has taken.
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
        part = begin, end
        insort(self._taken, part)
        return part

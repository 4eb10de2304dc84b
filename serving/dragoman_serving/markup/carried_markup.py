"""Carries the markup of a text through a pivot language, from the first leg to the second.

In the pivot text, the codes may have another order, and the positions of kept spans must be found.
So in the first leg each kept span is also a code, which is placed like the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from dragoman_options.markup import Code, Markup, PlacedCodes, Span

from dragoman_serving.markup.document_order import document_order


class CarriedMarkup:
    """A text's markup.

    Attributes:
        first: markup for the first leg, with a code for each kept span.
    """

    def __init__(self, text: str, markup: Markup) -> None:
        """Add codes for the kept spans.

        Args:
            text: the text.
            markup: valid markup of the text.
        """
        codes: list[Code] = []
        self._own: list[int] = []
        """For each of the text's codes, its index in `first`."""
        self._of_kept: list[int] = []
        """For each kept span, the index of its code in `first`."""
        self._kept = [text[begin:end] for begin, end in markup.keep]
        waiting = deque(markup.keep)

        def add_kept(until: int) -> None:
            while waiting and waiting[0][0] < until:
                span = waiting.popleft()
                self._of_kept.append(len(codes))
                codes.append(Code(*span, _enclosing(codes, span)))

        for begin, end, parent in markup.codes:
            add_kept(begin)
            self._own.append(len(codes))
            codes.append(Code(begin, end, None if parent is None else self._own[parent]))
        add_kept(len(text))
        self._parents = [code.parent for code in markup.codes]
        self.first = Markup(tuple(codes), markup.keep)

    def last(self, text: str, placed: PlacedCodes) -> Markup:
        """Returns the markup of the pivot text, for the last leg.

        Kept spans that the first leg did not repeat unchanged are dropped.

        Args:
            text: the pivot text.
            placed: the codes of `first` in the pivot text.
        """
        order = self._order(placed)
        place_of = {index: place for place, index in enumerate(order)}
        codes = []
        for index in order:
            parent = self._parents[index]
            within = None if parent is None else place_of[parent]
            codes.append(Code(*placed.codes[self._own[index]], within))
        spans = [placed.codes[index] for index in self._of_kept]
        keep = [
            (begin, end)
            for (begin, end), kept in zip(spans, self._kept, strict=True)
            if text[begin:end] == kept
        ]
        return Markup(tuple(codes), tuple(sorted(keep)))

    def joined(self, first: PlacedCodes, last: PlacedCodes) -> PlacedCodes:
        """Returns the text's codes in its translation.

        Args:
            first: the codes of `first` in the pivot text.
            last: the codes of `last` in the translation.
        """
        spans = dict(zip(self._order(first), last.codes, strict=True))
        uncertain = min(first.uncertain + last.uncertain, len(spans))  # one code may be both
        return PlacedCodes(tuple(spans[index] for index in range(len(spans))), uncertain)

    def _order(self, placed: PlacedCodes) -> list[int]:
        """The indices of the text's codes, in the order of the pivot text."""
        return document_order(self._parents, [placed.codes[index] for index in self._own])


def _enclosing(codes: Sequence[Code], span: Span) -> int | None:
    """The innermost code that encloses a span; the span begins after all the codes begin."""
    index = len(codes) - 1 if codes else None
    while index is not None and codes[index].end < span[1]:
        index = codes[index].parent
    return index

"""Places the codes of a sentence in its translation.

Every code is placed exactly once, within its parent, and codes of one parent do not overlap. A code
that encloses all units of its parent, or of the sentence, needs no alignment. The others are placed
from the outside in. Among the codes of one parent, the one with the most probable span comes first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from dragoman_options.markup import Code, Markup, PlacedCodes, Span

from dragoman_serving.markup.areas import Area
from dragoman_serving.markup.evidence import Evidence, Floats
from dragoman_serving.markup.links import Links
from dragoman_serving.markup.span_scores import (
    gap_features,
    gap_scores,
    span_features,
    span_scores,
)
from dragoman_serving.markup.units import unit_pair

_LEAST_LINK = 0.1
"""If the link between a code's source and target units is weaker, its position is uncertain."""


def place(source: str, target: str, markup: Markup, evidence: Evidence | None) -> PlacedCodes:
    """Place the codes of a sentence in its translation.

    Args:
        source: the sentence.
        target: its translation.
        markup: valid markup of the sentence.
        evidence: the soft alignment of the two; None: no code needs it, because each encloses the
            sentence or is empty at one of its ends.
    """
    if source == target:
        return PlacedCodes(tuple((code.begin, code.end) for code in markup.codes))
    if evidence is None:
        return PlacedCodes(tuple(_outer_spans(source, target, markup.codes)))
    placement = _Placement(source, target, markup, evidence)
    placement.run()
    return PlacedCodes(tuple(placement.spans), placement.uncertain)


def _outer_spans(source: str, target: str, codes: Sequence[Code]) -> Iterator[Span]:
    """The spans of codes that begin and end at the ends of a sentence."""
    begin, end = _core(source)
    found_begin, found_end = _core(target)

    def moved(offset: int) -> int:
        if offset <= begin:
            return found_begin if offset == begin else min(offset, found_begin)
        if offset == len(source) > end:
            return len(target)
        return min(found_end + offset - end, len(target))

    for code in codes:
        yield moved(code.begin), moved(code.end)


def _core(text: str) -> Span:
    """The span of a text without the white space at its ends."""
    end = len(text.rstrip())
    return min(len(text) - len(text.lstrip()), end), end


class _Placement:
    """A sentence whose codes are being placed."""

    def __init__(self, source: str, target: str, markup: Markup, evidence: Evidence) -> None:
        self.spans: list[Span] = [(0, 0)] * len(markup.codes)
        self.uncertain = 0
        self._codes = markup.codes
        self._source, self._target = unit_pair(source, target, markup)
        self._evidence = evidence
        begins, ends = (
            np.array([code[side] for code in markup.codes], np.int64) for side in (0, 1)
        )
        firsts = np.searchsorted(self._source.begins, begins)
        lasts = np.searchsorted(self._source.ends, ends, side="right")
        self._units: list[Span] = list(
            zip(firsts.tolist(), np.maximum(firsts, lasts).tolist(), strict=True)
        )
        """For each code, its first source unit, and the one after its last."""

    @cached_property
    def _links(self) -> Links:
        return Links(self._source, self._target, self._evidence)

    def run(self) -> None:
        """Place the codes, parents before children."""
        children = defaultdict(list)
        for index, code in enumerate(self._codes):
            children[code.parent].append(index)
        units = (0, len(self._source)), (0, len(self._target))
        waiting: list[tuple[int | None, Area]] = [(None, Area(*units, (0, len(self._target.text))))]
        while waiting:
            parent, area = waiting.pop()
            if parent in children:
                waiting += self._place_children(children[parent], area)

    def _place_children(self, children: Sequence[int], area: Area) -> list[tuple[int, Area]]:
        """Place the codes of one parent."""
        areas = self._place_spans([child for child in children if self._has_units(child)], area)
        for child in children:
            if child not in areas:
                areas[child] = self._place_in_gap(child, area)
        for child, inner in areas.items():
            self.spans[child] = inner.span
        return list(areas.items())

    def _has_units(self, code: int) -> bool:
        first, behind = self._units[code]
        return first < behind

    def _place_spans(self, children: Sequence[int], area: Area) -> dict[int, Area]:
        """Place the codes that enclose units, as long as there are free units in the target."""
        if area.target[0] == area.target[1]:
            return {}
        if len(children) == 1 and self._units[children[0]] == area.source:
            return {children[0]: self._enclose(children[0], area.target, area)}
        areas: dict[int, Area] = {}
        for child, best in self._surest_first(children, area):
            units = best if area.is_free(best) else self._best_free(child, area)
            if units is not None:
                areas[child] = self._enclose(child, units, area)
                self.uncertain += self._is_guess(self._units[child], units)
        return areas

    def _surest_first(self, children: Sequence[int], area: Area) -> list[tuple[int, Span]]:
        """The best span of each code, independent of the others, by descending probability."""
        candidates = []
        for child in children:
            scores = self._scores(child, area)
            best = int(scores.argmax())
            probability = 1 / np.exp(scores - scores.flat[best]).sum()
            candidates.append((probability, child, _units_of(best, scores, area.target[0])))
        candidates.sort(key=lambda candidate: (-candidate[0], candidate[1]))
        return [(child, best) for _, child, best in candidates]

    def _best_free(self, child: int, area: Area) -> Span | None:
        """The best span of free units; None if no unit is free."""
        scores, low = self._scores(child, area), area.target[0]
        candidates = []
        for begin, end in area.free_gaps():
            if begin < end:
                part = scores[begin - low : end - low, begin - low : end - low]
                best = int(part.argmax())
                candidates.append((float(part.flat[best]), _units_of(best, part, begin)))
        return max(candidates)[1] if candidates else None

    def _scores(self, child: int, area: Area) -> Floats:
        first, behind = self._units[child]
        return span_scores(span_features(self._links, first, behind - 1, *area.target))

    def _is_guess(self, source: Span, target: Span) -> bool:
        part = slice(*target), slice(*source)
        return bool(self._links.both[part].max(initial=0) < _LEAST_LINK)

    def _enclose(self, child: int, units: Span, area: Area) -> Area:
        """Put a code around target units, with white space as in the source."""
        code, (first, behind) = self._codes[child], self._units[child]
        core = int(self._target.begins[units[0]]), int(self._target.ends[units[1] - 1])
        span = (
            self._in_gap(code.begin, first, units[0], opening=True),
            self._in_gap(code.end, behind, units[1]),
        )
        return Area((first, behind), units, area.take(units, core, span))

    def _place_in_gap(self, child: int, area: Area) -> Area:
        """Place a code between units: an empty code, or one for which no units are left."""
        code, units = self._codes[child], self._units[child]
        gap = self._best_gap(child, area)
        span = self._in_gap(code.begin, units[0], gap), self._in_gap(code.end, units[1], gap)
        if self._has_units(child):
            span = span[0], span[0]
        return Area(units, (gap, gap), area.take_gap(self._target.gap(gap), span))

    def _best_gap(self, child: int, area: Area) -> int:
        """The gap of the target at which to place a code."""
        (first, behind), (low, high) = self._units[child], area.target
        if not self._has_units(child) and first in area.source:
            return area.target[area.source.index(first)]
        if low == high:
            self.uncertain += 1
            return low
        gap = first or behind
        if (target_gap := self._behind_word(child, gap, area)) is not None:
            return target_gap
        scores = gap_scores(gap_features(self._links, gap, low, high))
        free = np.concatenate([np.arange(begin, end + 1) for begin, end in area.free_gaps()])
        target_gap = int(free[scores[free - low].argmax()])
        around = self._links.both[max(target_gap - 1, 0) : target_gap + 1, gap - 1 : gap + 1]
        self.uncertain += self._has_units(child) or bool(around.max(initial=0) < _LEAST_LINK)
        return target_gap

    def _behind_word(self, child: int, gap: int, area: Area) -> int | None:
        """The gap behind the translation of a word, for an empty code that touches only this word.

        So a footnote's mark stays with its word. None: it touches no word, or a word on each side.
        """
        source, code = self._source, self._codes[child]
        if code.begin < code.end or code.begin != source.ends[gap - 1]:
            return None
        is_within = gap < len(source) and source.is_word[gap] and source.begins[gap] == code.end
        if not source.is_word[gap - 1] or is_within:
            return None
        low, high = area.target
        scores = span_scores(span_features(self._links, gap - 1, gap - 1, low, high))
        units = _units_of(int(scores.argmax()), scores, low)
        if self._is_guess((gap - 1, gap), units):
            return None
        is_free = any(begin <= units[1] <= end for begin, end in area.free_gaps())
        return units[1] if is_free else None

    def _in_gap(self, offset: int, gap: int, target_gap: int, opening: bool = False) -> int:
        """The offset of a border within a target gap, from its position in the source gap.

        Args:
            offset: offset of the border in the source.
            gap: the source gap.
            target_gap: the target gap.
            opening: whether the border goes after the white space if the source has none.
        """
        begin, end = self._source.gap(gap)
        first, last = self._target.gap(target_gap)
        if offset == end and (opening or begin < end):
            return last
        return first if offset == begin else min(first + offset - begin, last)


def _units_of(index: int, scores: Floats, low: int) -> Span:
    """The span of units for an index into flattened scores."""
    begin, end = divmod(index, scores.shape[1])
    return low + begin, low + end + 1

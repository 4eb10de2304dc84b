"""Scores of the spans and gaps of a translation at which a code may be placed.

A score is linear in a few features; `studies/markup_weights.py` of commit b01e75af fitted the
weights. Spans are of units: `[b, e]` are the first and the last unit of a span, both included, and
gap `k` lies before unit `k`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dragoman_serving.markup.evidence import Floats
from dragoman_serving.markup.links import Links

UNIT = {
    "forward": 0.78,
    "backward": 0.78,
    "both": 0.96,
    "both_mark": 0.41,
    "word": -0.17,
    "mark": -0.11,
    "similar": 1.00,
    "other_similar": -0.74,
}
"""Weights of the features of each unit in a span."""
BEGIN = {
    "same_mark": 0.63,
    "mark_for_word": -1.19,
    "same_mark_outside": 0.31,
    "other_mark_outside": -0.21,
    "linked": 1.55,
    "linked_outside": 0.81,
    "crossed": 0.99,
    "similar": 1.26,
    "similar_outside": 0.50,
}
"""Weights of the features of the edge at which a span begins."""
END = {
    "same_mark": -0.01,
    "mark_for_word": -0.83,
    "same_mark_outside": 0.01,
    "other_mark_outside": -0.90,
    "linked": 1.20,
    "linked_outside": 1.39,
    "crossed": -0.05,
    "similar": 0.86,
    "similar_outside": 0.34,
}
"""Weights of the features of the edge at which a span ends."""
SPAN = {
    "verbatim": 1.38,
    "verbatim_once": 1.14,
    "length": -1.89,
    "recall": 1.56,
    "distance": -1.16,
    "units": -0.92,
}
"""Weights of the features of a whole span."""
GAP = {
    "order": 0.51,
    "linked_after": 1.90,
    "linked_before": 2.24,
    "crossed_after": -0.75,
    "crossed_before": 1.44,
    "same_mark_after": 1.27,
    "same_mark_before": 1.69,
    "other_mark_after": 0.51,
    "other_mark_before": -1.49,
    "similar_after": 1.40,
    "similar_before": -0.07,
    "joined": 0.33,
    "distance": -0.87,
}
"""Weights of the features of a gap."""


@dataclass(frozen=True)
class Features:
    """Features of the spans within a range of N target units; or their weights, without N.

    Attributes:
        unit: [F, N], features of each unit in the span.
        begin: [F, N], features of a span that begins with the unit.
        end: [F, N], features of a span that ends with the unit.
        span: [F, N, N], features of the span from unit b to unit e.
    """

    unit: Floats
    begin: Floats
    end: Floats
    span: Floats


def _table(weights: Mapping[str, float]) -> Floats:
    return np.array(list(weights.values()), np.float32)


WEIGHTS = Features(*map(_table, (UNIT, BEGIN, END, SPAN)))
GAP_WEIGHTS = _table(GAP)


def span_scores(features: Features) -> Floats:
    """Returns scores [N, N] of the spans from unit b to unit e; minus infinity if e is before b."""
    gains = np.zeros(features.unit.shape[1] + 1, np.float32)
    np.cumsum(WEIGHTS.unit @ features.unit, out=gains[1:])
    begins = WEIGHTS.begin @ features.begin - gains[:-1]
    ends = WEIGHTS.end @ features.end + gains[1:]
    scores: Floats = np.tensordot(WEIGHTS.span, features.span, 1) + begins[:, None] + ends
    scores[np.tri(len(scores), k=-1, dtype=bool)] = -np.inf
    return scores


def gap_scores(features: Floats) -> Floats:
    """Returns scores [N] of gaps."""
    scores: Floats = GAP_WEIGHTS @ features
    return scores


def span_features(links: Links, first: int, last: int, low: int, high: int) -> Features:
    """Returns features of the spans at which a code may be placed.

    Args:
        links: links of the two texts.
        first: the first source unit of the code.
        last: its last source unit.
        low: the first target unit that it may enclose.
        high: the unit after the last one.
    """
    return Features(
        _unit_features(links, first, last, low, high),
        _edge_features(links, first, -1, low, high),
        _edge_features(links, last, 1, low, high),
        _whole_features(links, first, last, low, high),
    )


def _unit_features(links: Links, first: int, last: int, low: int, high: int) -> Floats:
    rows, inside = slice(low, high), slice(first, last + 1)
    word = links.target.is_word[rows].astype(np.float32)
    mark = 1 - word
    forward, backward, both = (
        2 * weights[rows, inside].sum(axis=1) - weights[rows].sum(axis=1)
        for weights in (links.forward, links.backward_by_row, links.both)
    )
    similar = links.similarity[rows, inside].max(axis=1)
    others = np.delete(links.similarity[rows], np.s_[inside], axis=1).max(axis=1, initial=0)
    return np.stack(
        [
            *(forward * word, backward * word, both * word, both * mark, word, mark),
            *(np.maximum(similar - others, 0), np.maximum(others - similar, 0)),
        ]
    )


def _edge_features(links: Links, inner: int, step: int, low: int, high: int) -> Floats:
    """Features of one edge of a span.

    Args:
        links: links of the two texts.
        inner: the source unit inside the edge.
        step: 1 at the end of a span, -1 at its begin.
        low: the first target unit.
        high: the unit after the last one.
    """
    source, target = links.source, links.target
    features = np.zeros((len(BEGIN), high - low), np.float32)
    same_mark, mark_for_word, same_outside, other_outside = features[:4]
    linked, linked_outside, crossed, similar, similar_outside = features[4:]
    rows = slice(low, high)
    linked[:], similar[:] = links.both[rows, inner], links.similarity[rows, inner]
    if source.is_word[inner]:
        mark_for_word[:] = ~target.is_word[rows]
    else:
        same_mark[:] = links.same[rows, inner]
    # Units with a neighbour outside the edge: their range in `features`, and the neighbours' rows.
    begin, end = max(low, -step), min(high, len(target) - step)
    has_outside, outside = slice(begin - low, end - low), slice(begin + step, end + step)
    crossed[has_outside] = links.both[outside, inner]
    outer = inner + step
    if 0 <= outer < len(source):
        linked_outside[has_outside] = links.both[outside, outer]
        similar_outside[has_outside] = links.similarity[outside, outer]
        if not source.is_word[outer]:
            same_outside[has_outside] = links.same[outside, outer]
            other_outside[has_outside] = ~links.same[outside, outer]
    return features


def _whole_features(links: Links, first: int, last: int, low: int, high: int) -> Floats:
    source, target = links.source, links.target
    size, units = high - low, last + 1 - first
    features = np.zeros((len(SPAN), size, size), np.float32)
    verbatim, once, length, recall, distance, of_units = features
    starts = _verbatim_starts(links.same[low:high, first : last + 1])
    verbatim[starts, starts + units - 1] = 1
    once[starts, starts + units - 1] = len(starts) == 1
    begins, ends = target.begins[low:high], target.ends[low:high]
    src_begin, src_end = source.begins[first], source.ends[last]
    share = (ends - begins[:, None]).clip(min=1) / target.length
    length[:] = abs(np.log(share * (source.length / (src_end - src_begin))))
    sums = np.zeros(size + 1, np.float32)
    np.cumsum(links.backward[low:high, first : last + 1].mean(axis=1), out=sums[1:])
    recall[:] = sums[1:] - sums[:-1, None]
    middle = (begins[:, None] + ends - 2 * target.begins[0]) / (2 * target.length)
    src_middle = (src_begin + src_end - 2 * source.begins[0]) / (2 * source.length)
    distance[:] = abs(middle - src_middle)
    indices = np.arange(size)
    of_units[:] = abs(indices + 1 - indices[:, None] - units) / (units + 1)
    return features


def _verbatim_starts(same: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """First units of the spans that repeat the code's units; `same` is [N, units]."""
    size, units = same.shape
    if units > size:
        return np.zeros(0, np.int64)
    runs = np.lib.stride_tricks.sliding_window_view(same, units, axis=0)
    return np.nonzero(np.diagonal(runs, axis1=1, axis2=2).all(axis=1))[0]


def gap_features(links: Links, gap: int, low: int, high: int) -> Floats:
    """Returns features [F, N] of the gaps at which an empty code may be placed.

    Args:
        links: links of the two texts.
        gap: the source gap; neither the first nor the last one.
        low: the first target gap.
        high: the last target gap; N is `high + 1 - low`.
    """
    source, target = links.source, links.target
    features = np.zeros((len(GAP), high + 1 - low), np.float32)
    (order, *edges, joined, distance) = features
    gains = 2 * links.both[:, :gap].sum(axis=1) - links.both.sum(axis=1)
    sums = np.zeros(len(target) + 1, np.float32)
    np.cumsum(gains, out=sums[1:])
    order[:] = sums[low : high + 1]
    # Gaps with a unit after them, and gaps with one before: positions in `features`, and the units.
    after = slice(0, min(high, len(target) - 1) + 1 - low), slice(low, min(high + 1, len(target)))
    before = slice(max(low, 1) - low, None), slice(max(low, 1) - 1, high)
    for at, (inner, outer, (gaps, units)) in enumerate(
        ((gap, gap - 1, after), (gap - 1, gap, before))
    ):
        linked, crossed, same_mark, other_mark, similar = edges[at::2]
        linked[gaps], crossed[gaps] = links.both[units, inner], links.both[units, outer]
        similar[gaps] = links.similarity[units, inner]
        if not source.is_word[inner]:
            same_mark[gaps] = links.same[units, inner]
            other_mark[gaps] = ~links.same[units, inner]
    begins = np.append(target.begins, len(target.text))[low : high + 1]
    ends = np.insert(target.ends, 0, 0)[low : high + 1]
    joined[:] = (begins == ends) == (source.begins[gap] == source.ends[gap - 1])
    middle = (ends - target.begins[0]) / target.length
    src_middle = (source.ends[gap - 1] - source.begins[0]) / source.length
    distance[:] = abs(middle - src_middle)
    return features

"""Simple methods to place codes, each code independently."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from dragoman_options.markup import Code, Span
from dragoman_serving.markup.evidence import Evidence, Floats

from lab.markup.tagged_pairs import TaggedPair


def by_position(pair: TaggedPair, evidence: Evidence) -> list[Span]:
    """At the same share of the text's length, moved to the nearest token boundary."""
    begins, ends = np.array(evidence.target).T
    ratio = len(pair.target) / len(pair.source)
    found = []
    for begin, end, _ in pair.markup.codes:
        first = _nearest(begins, begin * ratio)
        found.append((first, max(first, _nearest(ends, end * ratio))))
    return found


def min_max(pair: TaggedPair, evidence: Evidence) -> list[Span]:
    """From the first to the last token whose strongest link leads into the code."""
    links = evidence.weights.argmax(axis=1)
    found = []
    for code in pair.markup.codes:
        inside = _inside(code, evidence)
        (linked,) = np.nonzero(inside[links])
        if len(linked):
            found.append(_trimmed(pair.target, evidence, linked[0], linked[-1]))
        else:
            found.append(_after_the_word_before(code, pair, evidence, evidence.weights))
    return found


def best_span(pair: TaggedPair, evidence: Evidence) -> list[Span]:
    """The run of tokens with the largest gain: the weight from inside minus that from outside."""
    return _best_spans(pair, evidence, evidence.weights)


def best_span_of_both(pair: TaggedPair, evidence: Evidence) -> list[Span]:
    """Like `best_span`, with the product of the weights of both directions."""
    assert evidence.reverse is not None
    return _best_spans(pair, evidence, evidence.weights * evidence.reverse.T)


def _best_spans(pair: TaggedPair, evidence: Evidence, weights: Floats) -> list[Span]:
    weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), np.float32(1e-9))
    found = []
    for code in pair.markup.codes:
        inside = _inside(code, evidence)
        if inside.any():
            gains = 2 * weights[:, inside].sum(axis=1) - 1
            found.append(_trimmed(pair.target, evidence, *_largest_run(gains)))
        else:
            found.append(_after_the_word_before(code, pair, evidence, weights))
    return found


def _largest_run(gains: Floats) -> tuple[int, int]:
    """The first and the last index of the run with the largest sum."""
    sums = np.concatenate([[0.0], gains.cumsum()])
    lowest = np.minimum.accumulate(sums[:-1])
    last = int((sums[1:] - lowest).argmax())
    return int(sums[: last + 1].argmin()), last


def _inside(code: Code, evidence: Evidence) -> npt.NDArray[np.bool_]:
    begins, ends = np.array(evidence.source).T
    inside: npt.NDArray[np.bool_] = (begins < code.end) & (ends > code.begin)
    return inside


def _after_the_word_before(
    code: Code, pair: TaggedPair, evidence: Evidence, weights: Floats
) -> Span:
    """An empty code's span: after the token that is linked to the one before the code."""
    before = [index for index, (_, end) in enumerate(evidence.source) if end <= code.begin]
    offset = evidence.target[int(weights[:, before[-1]].argmax())][1] if before else 0
    return offset, offset


def _trimmed(text: str, evidence: Evidence, first: int, last: int) -> Span:
    """The span of tokens, extended to whole words, without leading white space."""
    begin, end = evidence.target[first][0], evidence.target[last][1]
    part = text[begin:end]
    begin = end - len(part.lstrip())
    while 0 < begin < end and text[begin - 1].isalnum() and text[begin].isalnum():
        begin -= 1
    while 0 < end < len(text) and text[end - 1].isalnum() and text[end].isalnum():
        end += 1
    return begin, end


def _nearest(offsets: npt.NDArray[np.int64], offset: float) -> int:
    return int(offsets[abs(offsets - offset).argmin()])

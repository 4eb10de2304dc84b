"""Choosing the attention heads that tell what a word was translated from.

No alignments by people are at hand. Heads are judged by how far the links of the two directions
agree (`agreement`) and by words that are spelt alike in both languages (`anchors`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from dragoman_serving.scoring.pair import Floats

from dragoman.kernel.manifest import AlignmentHeads, Criterion
from dragoman_export.heads.agreement import Directions
from dragoman_export.heads.anchors import Anchors

_LEAST_RIGHT = 0.5
"""Of anchors, by heads that were chosen without them."""
_NEARLY = 0.9
"""Part of the best agreement that the heads chosen by anchors need to be taken instead."""

Head = tuple[int, int]
"""Layer and head, from 0."""


class Evidence(Protocol):
    """What a text shows of heads. Weights are of any one shape; those of several heads add up."""

    criterion: ClassVar[Criterion]

    @property
    def count(self) -> int:
        """How many pairs, or tokens, it consists of."""

    @property
    def heads(self) -> list[Head]:
        """All that there are."""

    @property
    def diagonal(self) -> Floats:
        """Weights of one who looks as far into the source as the piece is into the target."""

    def looked(self, head: Head, when_read: bool) -> Floats:
        """Weights of a head, at the step that reads a token or at the one that says it."""

    def value(self, weights: Floats) -> float:
        """How good weights are, at most 1."""

    def report(self, weights: Floats) -> str:
        """That, for people."""


def nominate(directions: Directions, anchors: Anchors | None, text: str) -> list[AlignmentHeads]:
    """Choose by each of two kinds of evidence, the better choice first.

    Anchors are certain, but few words are anchors. So the choice by anchors is the better one if
    its directions agree nearly as well as those of the choice by agreement. It is too if the other
    one links most anchors wrong: where all that is right follows from position, as in a language
    that turns every sentence round, agreement beyond it tells nothing.

    Args:
        directions: of the text.
        anchors: of the text, in both directions; None if it has too few.
        text: its name, to be told where the choice is.
    """
    by_agreement = choose_heads(directions, text)
    if anchors is None:
        return [by_agreement]
    by_anchors = choose_heads(anchors, text)
    agreement = directions.value(total_of(directions, by_anchors.heads, by_anchors.when_read))
    right = anchors.value(total_of(anchors, by_agreement.heads, by_agreement.when_read))
    if agreement >= _NEARLY * by_agreement.value or right < _LEAST_RIGHT:
        return [by_anchors, by_agreement]
    return [by_agreement, by_anchors]


def choose_heads(evidence: Evidence, text: str) -> AlignmentHeads:
    """Take heads one by one, each time the one with which the average is best, while it helps.

    Args:
        evidence: of the text.
        text: its name, to be told where the choice is.
    """
    chosen = [(*_forward_selection(evidence, when_read), when_read) for when_read in (False, True)]
    heads, value, when_read = max(chosen, key=lambda one: one[1])
    return AlignmentHeads(heads, when_read, evidence.criterion, value, evidence.count, text)


def total_of(evidence: Evidence, heads: Sequence[Head], when_read: bool) -> Floats:
    """Weights of several heads together."""
    total = evidence.looked(heads[0], when_read).copy()
    for head in heads[1:]:
        total += evidence.looked(head, when_read)
    return total


def _forward_selection(evidence: Evidence, when_read: bool) -> tuple[tuple[Head, ...], float]:
    left = {head: evidence.looked(head, when_read) for head in evidence.heads}
    values = {head: evidence.value(weights) for head, weights in left.items()}
    chosen = [max(values, key=values.__getitem__)]
    best = values[chosen[0]]
    total = left.pop(chosen[0]).copy()
    while left:
        values = {head: evidence.value(total + weights) for head, weights in left.items()}
        head = max(values, key=values.__getitem__)
        if values[head] <= best:
            break
        best = values[head]
        chosen.append(head)
        total += left.pop(head)
    return tuple(chosen), best

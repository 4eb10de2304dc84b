"""Chooses the attention heads that align target words with source words.

It needs no human alignments. Heads are rated by the agreement of the alignments in both directions
(`agreement`) and by words spelt alike in both languages (`anchors`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from dragoman_serving.scoring.token_pair import Floats

from dragoman.kernel.manifest import AlignmentHeads, Criterion
from dragoman_export.heads.agreement import BothDirections
from dragoman_export.heads.anchors import Anchors

_LEAST_RIGHT = 0.5
"""Required share of correct anchors for heads that were chosen without them."""
_NEARLY = 0.95
"""Share of the best agreement that the heads chosen by anchors need to be preferred."""

Head = tuple[int, int]
"""Layer and head, from 0."""


class Evidence(Protocol):
    """What a text shows about heads. Weights share one shape; those of several heads add up."""

    criterion: ClassVar[Criterion]

    @property
    def count(self) -> int:
        """Number of pairs or tokens in it."""

    @property
    def heads(self) -> list[Head]:
        """All heads."""

    @property
    def diagonal(self) -> Floats:
        """Weights of the diagonal: the source position proportional to the target position."""

    def looked(self, head: Head, when_read: bool) -> Floats:
        """Weights of a head, at the step that reads a token or at the step that generates it."""

    def value(self, weights: Floats) -> float:
        """Quality of weights, at most 1."""

    def report(self, weights: Floats) -> str:
        """The quality as text."""


def nominate(
    directions: BothDirections, anchors: Anchors | None, text: str
) -> list[AlignmentHeads]:
    """Choose heads by each of two kinds of evidence; the better choice comes first.

    Anchors are reliable, but few words are anchors. The choice by anchors is better if its
    directions agree nearly as well as those of the choice by agreement. It is also better if the
    choice by agreement gets most anchors wrong: if correct links follow from position alone, as in
    a language with reversed word order, agreement beyond position shows nothing.

    Args:
        directions: of the text.
        anchors: of the text, in both directions; None if it has too few.
        text: its name, which is recorded with the choice.
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
    """Select heads greedily: add the head that gives the best average, while it improves.

    Args:
        evidence: of the text.
        text: its name, which is recorded with the choice.
    """
    chosen = [(*_forward_selection(evidence, when_read), when_read) for when_read in (False, True)]
    heads, value, when_read = max(chosen, key=lambda choice: choice[1])
    return AlignmentHeads(heads, when_read, evidence.criterion, value, evidence.count, text)


def total_of(evidence: Evidence, heads: Sequence[Head], when_read: bool) -> Floats:
    """Sum of the weights of several heads."""
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

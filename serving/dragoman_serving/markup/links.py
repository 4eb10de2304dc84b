"""Links between the units of a sentence and those of its translation."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from dragoman_serving.markup.evidence import Evidence, Floats
from dragoman_serving.markup.units import Units

_SHORTEST_PREFIX = 3
"""Least common prefix of two similar words, in characters."""
_LEAST = np.float32(1e-9)


class Links:
    """How strongly units are linked: T of the target, S of the source.

    Attributes:
        forward: [T, S], the weights of the translation's direction; rows sum to 1.
        backward: [T, S], the weights of the reverse direction; columns sum to 1.
        backward_by_row: [T, S], the same, divided so that rows sum to 1.
        both: [T, S], the product of the two; rows sum to 1.
        similarity: [T, S], 1 for equal texts, the share of the common prefix for similar words.
        same: [T, S], whether the texts are equal.
    """

    def __init__(self, source: Units, target: Units, evidence: Evidence) -> None:
        """Compute the links of two texts."""
        self.source, self.target = source, target
        rows, columns = target.pooling(evidence.target), source.pooling(evidence.source)
        self.forward = _shares(rows.T @ _shares(evidence.weights, 1) @ columns, 1)
        if evidence.reverse is None:
            self.backward = _shares(self.forward, 0)
        else:
            self.backward = _shares((columns.T @ _shares(evidence.reverse, 1) @ rows).T, 0)
        self.backward_by_row = _shares(self.backward, 1)
        self.both = _shares(self.forward * self.backward, 1)
        self.similarity = _similarity(source.texts, target.texts)
        self.same = self.similarity == 1


def _shares(weights: Floats, axis: int) -> Floats:
    """Weights divided by their sum along an axis."""
    sums = np.maximum(weights.sum(axis=axis, keepdims=True), _LEAST)
    shares: Floats = weights / sums
    return shares


def _similarity(source: list[str], target: list[str]) -> Floats:
    similarity = np.zeros((len(target), len(source)), np.float32)
    by_prefix = defaultdict(list)
    for column, text in enumerate(source):
        by_prefix[text[:_SHORTEST_PREFIX]].append(column)
    for row, text in enumerate(target):
        for column in by_prefix.get(text[:_SHORTEST_PREFIX], ()):
            similarity[row, column] = _common_prefix(text, source[column])
    return similarity


def _common_prefix(text: str, other: str) -> float:
    """Length of the common prefix as a share of the longer text; 0 below the least prefix."""
    if text == other:
        return 1
    shorter = min(len(text), len(other))
    common = next((at for at in range(shorter) if text[at] != other[at]), shorter)
    return common / max(len(text), len(other)) if common >= _SHORTEST_PREFIX else 0

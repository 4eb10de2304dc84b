"""Quality of translations with tags, compared with references that have the same tags."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from dragoman_training.run.evaluation import measure

from lab.markup.tagged_pairs import Name, TaggedLine, TaggedPair

_ORDERS = 4
"""Orders of BLEU's n-grams."""
_LENGTH_WEIGHT = 0.1
"""Weight of the difference in length of two pieces; a word in common has weight 1."""
_TOKEN = re.compile(r"\w+|[^\w\s]")
_NAME = re.compile(r"</?[^\s/>]+")

Ngrams = Counter[tuple[str, ...]]
Pieces = Sequence[tuple[str, str]]
"""Pieces of translations, each with that of the reference."""


@dataclass(frozen=True)
class TagQuality:
    """Results of one test set; shares are from 0 to 1.

    Attributes:
        lines: number of lines.
        elements: number of elements in the sources.
        once: share of the elements that the translation has exactly once.
        in_parent: share of the elements with the same parent as in the source.
        matched: share of the lines whose tag names are in the reference's order.
        bleu: of the lines without tags.
        bleu_of_pieces: of the pieces between tags; those of lines that do not match are empty.
        bleu_of_best_pieces: of the same translations, split where the reference's tags fit best.
    """

    lines: int
    elements: int
    once: float
    in_parent: float
    matched: float
    bleu: float
    bleu_of_pieces: float
    bleu_of_best_pieces: float


def tag_quality(pairs: Sequence[TaggedPair], translated: Sequence[TaggedLine | None]) -> TagQuality:
    """Compare translations with references.

    BLEU of the pieces is Hashimoto et al.'s XML BLEU, with sacrebleu's defaults.
    Source: https://aclanthology.org/W19-5212, and github.com/salesforce/localization-xml-mt

    Args:
        pairs: of the test set.
        translated: translations with tags; None for one whose tags are not a tree.
    """
    elements = sum(len(pair.line.names) for pair in pairs)
    once = in_parent = matched = 0
    pieces: list[tuple[str, str]] = []
    best: list[tuple[str, str]] = []
    for pair, line in zip(pairs, translated, strict=True):
        references = pair.reference.pieces
        if line is not None:
            once += _once(pair.line, line)
            in_parent += (Counter(_relations(pair.line)) & Counter(_relations(line))).total()
        if line is not None and _tag_names(line) == _tag_names(pair.reference):
            matched += 1
            pieces += zip(line.pieces, references, strict=True)
        else:
            pieces += (("", reference) for reference in references)
        best += zip(best_pieces(line.text if line else "", references), references, strict=True)
    texts = [
        (line.text if line else "", pair.target)
        for pair, line in zip(pairs, translated, strict=True)
    ]
    return TagQuality(
        len(pairs),
        elements,
        once / elements,
        in_parent / elements,
        matched / len(pairs),
        *map(bleu, (texts, pieces, best)),
    )


def bleu(pairs: Pieces) -> float:
    """BLEU of translations and their references."""
    return measure(
        [translation for translation, _ in pairs], [reference for _, reference in pairs]
    ).bleu


def best_pieces(text: str, references: Sequence[str]) -> list[str]:
    """Split a text so that its pieces share the most n-grams with the references.

    A placement of the same tags in the same text can hardly be better.

    Args:
        text: a translation without tags.
        references: the pieces of its reference, in order.
    """
    tokens = [match.span() for match in _TOKEN.finditer(text)]
    words = [text[begin:end] for begin, end in tokens]
    # For each prefix of the tokens: the score of its best split, and where the pieces end.
    unreached: tuple[float, tuple[int, ...]] = (-math.inf, ())
    best = [(0.0, unreached[1]), *[unreached] * len(words)]
    for reference in references:
        following = [unreached] * len(best)
        expected = _TOKEN.findall(reference)
        for begin, (sum_before, ends) in enumerate(best):
            if sum_before > -math.inf:
                for end, gain in enumerate(_gains(words[begin:], expected), start=begin):
                    if sum_before + gain > following[end][0]:
                        following[end] = sum_before + gain, (*ends, end)
        best = following
    offsets = [0, *(tokens[end][0] if end < len(tokens) else len(text) for end in best[-1][1])]
    return [text[begin:end] for begin, end in pairwise(offsets)]


def _gains(words: Sequence[str], expected: Sequence[str]) -> list[float]:
    """Score of the first 0, 1, ... words as a piece; longer n-grams count more."""
    shared = 0
    gains = [-_LENGTH_WEIGHT * len(expected)]
    remaining = _ngrams(expected)
    for end in range(1, len(words) + 1):
        for order in range(1, min(_ORDERS, end) + 1):
            ngram = tuple(words[end - order : end])
            if remaining[ngram] > 0:
                remaining[ngram] -= 1
                shared += order
        gains.append(shared - _LENGTH_WEIGHT * abs(end - len(expected)))
    return gains


def _ngrams(words: Sequence[str]) -> Ngrams:
    return Counter(
        tuple(words[begin : begin + order])
        for order in range(1, _ORDERS + 1)
        for begin in range(len(words) - order + 1)
    )


def _once(source: TaggedLine, translation: TaggedLine) -> int:
    """Number of the source's elements that occur as often as in the source."""
    numbers = Counter(translation.names)
    return sum(count for name, count in Counter(source.names).items() if numbers[name] == count)


def _relations(line: TaggedLine) -> list[tuple[Name, Name | None]]:
    """Each element and its parent."""
    return [
        (name, None if code.parent is None else line.names[code.parent])
        for name, code in zip(line.names, line.codes, strict=True)
    ]


def _tag_names(line: TaggedLine) -> list[str]:
    """Tags without their attributes, since test sets number elements by their order."""
    return [match[0] for tag in line.tags if (match := _NAME.match(tag))]

"""Tags placed in reference translations: how many are where the reference has them.

CORPORA contains the folders markup-amazon-en-de and -fr and markup-php-en-de and -fr. Tags are
removed from sources and references, and placed in the references again by the model's soft
alignments of the two. Only codes that need an alignment count; white space is ignored. Codes that
are alike are compared in their order in the reference, which does not tell which is which.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from dragoman_options.markup import Span
from dragoman_serving.markup.evidence import Evidence
from dragoman_serving.markup.placement import place

from lab.markup.soft_alignments import SoftAligner
from lab.markup.tagged_pairs import TaggedPair, read_tagged_pairs
from lab.measurement import BUNDLE, Results, option, program, seconds
from lab.report import markdown_table

SETS = {
    "test": ("amazon {}/test-glossary", "amazon {}/test-eurlex", "php {}/test"),
    "dev": ("amazon {}/dev-glossary", "amazon {}/dev-eurlex", "php {}/valid"),
}

Aligned = Sequence[tuple[TaggedPair, Evidence]]
Placing = Callable[[TaggedPair, Evidence], Sequence[Span]]


def _by_dragoman(pair: TaggedPair, evidence: Evidence) -> Sequence[Span]:
    return place(pair.source, pair.target, pair.markup, evidence).codes


def _one_direction(pair: TaggedPair, evidence: Evidence) -> Sequence[Span]:
    forward = Evidence(evidence.weights, evidence.source, evidence.target)
    return place(pair.source, pair.target, pair.markup, forward).codes


METHODS: dict[str, Placing] = {
    "Dragoman, one direction": _one_direction,
    "Dragoman": _by_dragoman,
}


@dataclass
class Count:
    """Number of tags and pairs of tags, and how many of them are correct.

    An empty element counts as one tag and no pair.
    """

    tags: int = 0
    right_tags: int = 0
    pairs: int = 0
    right_pairs: int = 0

    def add(self, text: str, expected: Span, actual: Span, is_empty: bool) -> None:
        """Count a code."""
        begin, end = (
            _characters(text, expected_offset) == _characters(text, actual_offset)
            for expected_offset, actual_offset in zip(expected, actual, strict=True)
        )
        self.tags += 1 if is_empty else 2
        self.right_tags += begin if is_empty else begin + end
        self.pairs += not is_empty
        self.right_pairs += not is_empty and begin and end

    def __str__(self) -> str:
        """Percentage of correct tags and of correct pairs."""
        tags, pairs = max(self.tags, 1), max(self.pairs, 1)
        return f"{100 * self.right_tags / tags:.1f} / {100 * self.right_pairs / pairs:.1f}"


def _characters(text: str, offset: int) -> int:
    """Number of characters before an offset, without white space."""
    return len("".join(text[:offset].split()))


def count(aligned: Aligned, method: Placing) -> Count:
    """Place all codes, and count those that need an alignment."""
    total = Count()
    for pair, evidence in aligned:
        placed = method(pair, evidence)
        for group in pair.alike:
            expected, actual = (
                sorted(of[index] for index in group) for of in (pair.expected, placed)
            )
            for expected_span, actual_span in zip(expected, actual, strict=True):
                total.add(pair.target, expected_span, actual_span, group[0] in pair.empty)
    return total


def read_sets(
    corpora: Path, aligner: SoftAligner, names: Iterable[str]
) -> Iterable[tuple[str, Aligned]]:
    """Sets of pairs with their alignments, by name."""
    for language in ("de", "fr"):
        for name in names:
            filled = name.format(f"en-{language}")
            pairs = read_tagged_pairs(corpora / f"markup-{filled.replace(' ', '-')}", language)
            yield filled, list(aligner.align(pairs, language))


CORPORA = option("--corpora", type=Path, required=True, help="folder of the sets with tags")
PART = option("--part", choices=sorted(SETS), default="test")


@program(CORPORA, PART, BUNDLE)
def main(arguments: argparse.Namespace) -> Results:
    """Measure and print."""
    rows, results = [], []
    aligner = SoftAligner(arguments.bundle)
    for name, aligned in read_sets(arguments.corpora, aligner, SETS[arguments.part]):
        counts = {method: count(aligned, placing) for method, placing in METHODS.items()}
        taken_s = sum(seconds(partial(_by_dragoman, *both)) for both in aligned)
        taken_ms = 1000 * taken_s / len(aligned)
        sizes = len(aligned), counts["Dragoman"].tags
        rows.append([name, *map(str, (*sizes, *counts.values())), f"{taken_ms:.2f}"])
        results.append(
            {
                "set": name,
                "lines": len(aligned),
                "methods": {method: asdict(of_method) for method, of_method in counts.items()},
                "ms_per_sentence": taken_ms,
            }
        )
    print("Percent of tags at the right character / of pairs of tags with both ends right:\n")
    print(markdown_table(["set", "lines", "tags", *METHODS, "ms"], rows))
    return {"results": results}


if __name__ == "__main__":
    sys.exit(main())

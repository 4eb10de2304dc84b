"""Fits the weights that determine where codes are placed in translations.

Run from the project's folder:

    python -m lab.markup.weights --corpora CORPORA [--bundle BUNDLE ...] [--test]

Prints the tables of `dragoman_serving/markup/span_scores.py`. The weights maximize the probability
of the reference's spans among all spans of a translation, a softmax over their scores. They are
fitted on the dev sets of `lab.markup.placement`, each pair in both directions. `--test` also
prints how many codes are then placed exactly, each independently, on the dev and the test sets.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
from dragoman_options.markup import Code, Markup, Span
from dragoman_serving.markup import span_scores
from dragoman_serving.markup.evidence import Evidence, Floats
from dragoman_serving.markup.links import Links
from dragoman_serving.markup.units import Units, unit_pair

from lab.markup.placement import SETS, SHIPPED, Aligned, read_sets
from lab.markup.soft_alignments import SoftAligner
from lab.markup.tagged_pairs import TaggedPair

_SPAN_TABLES = ("UNIT", "BEGIN", "END", "SPAN")
_STEPS = 300
_RATE = 0.05
_DECAY = 1e-3
"""Weight decay: factor of the squared weights."""
_LEAST_PROBABILITY = 3e-4
"""Added to the reference's probability: its tag may be where no score can place it."""
_MOST_UNITS = 80
"""Maximum units of a translation; the number of spans is quadratic in it."""
_MOST_EXAMPLES = 1_000
"""Maximum number of examples of a set."""


@dataclass(frozen=True)
class Examples:
    """Codes of one set, of one kind.

    Attributes:
        features: [F, M], for all candidates of all codes.
        begins: for each code, the index of its first candidate.
        expected: for each code, the index of the reference's candidate.
    """

    features: Floats
    begins: npt.NDArray[np.int64]
    expected: npt.NDArray[np.int64]

    @classmethod
    def of(cls, codes: Sequence[tuple[Floats, int]]) -> Examples:
        """Join the features [F, N] of each code and the index of its expected candidate."""
        sizes = [features.shape[1] for features, _ in codes]
        begins = np.cumsum([0, *sizes[:-1]])
        expected = begins + [index for _, index in codes]
        return cls(np.concatenate([one for one, _ in codes], axis=1), begins, expected)

    def probabilities(self, weights: Floats) -> Floats:
        """Probabilities of all candidates, a softmax for each code."""
        sizes = np.diff([*self.begins, self.features.shape[1]])
        scores = weights @ self.features
        scores = np.exp(scores - np.repeat(np.maximum.reduceat(scores, self.begins), sizes))
        found: Floats = scores / np.repeat(np.add.reduceat(scores, self.begins), sizes)
        return found

    def gradient(self, weights: Floats) -> Floats:
        """Gradient of the mean loss, the negative log-probability of the expected candidate."""
        sizes = np.diff([*self.begins, self.features.shape[1]])
        probabilities = self.probabilities(weights)
        right = probabilities[self.expected]
        trust = right / (right + _LEAST_PROBABILITY)
        by_score = probabilities * np.repeat(trust, sizes)
        by_score[self.expected] -= trust
        found: Floats = self.features @ by_score / len(self.begins)
        return found

    def right(self, weights: Floats) -> float:
        """Share of the codes whose expected candidate has the highest score."""
        probabilities = self.probabilities(weights)
        best = np.maximum.reduceat(probabilities, self.begins)
        return float((probabilities[self.expected] >= best).mean())


def main() -> None:
    """Fit and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument(
        "--bundle", type=Path, nargs="+", default=[SHIPPED], help="several: weights for all of them"
    )
    parser.add_argument("--test", action="store_true", help="print how many are right")
    arguments = parser.parse_args()
    parts = ("dev", "test") if arguments.test else ("dev",)
    sets: dict[str, list[tuple[str, Aligned]]] = {part: [] for part in parts}
    for bundle in arguments.bundle:
        aligner = SoftAligner(bundle)
        for part in parts:
            found = read_sets(arguments.corpora, aligner, SETS[part])
            sets[part] += [(f"{bundle}, {name}", aligned) for name, aligned in found]
    for extract, tables in ((_span_example, _SPAN_TABLES), (_gap_example, ("GAP",))):
        examples = {part: _examples(sets[part], extract) for part in parts}
        weights = fit(list(examples["dev"].values()))
        _print_tables(tables, weights)
        for name, one in (item for part in parts for item in examples[part].items()):
            print(f"# {name}: {one.right(weights):.1%} of {len(one.begins)}")


def fit(sets: Sequence[Examples]) -> Floats:
    """The weights that maximize the probability of the expected candidates, by Adam.

    A set counts in proportion to the square root of its size.
    """
    weights = np.zeros(sets[0].features.shape[0], np.float32)
    shares = np.sqrt([len(one.begins) for one in sets], dtype=np.float32)
    shares /= shares.sum()
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, _STEPS + 1):
        gradient = np.float32(_DECAY) * weights
        for one, share in zip(sets, shares, strict=True):
            gradient = gradient + share * one.gradient(weights)
        mean += np.float32(0.1) * (gradient - mean)
        square += np.float32(0.01) * (gradient**2 - square)
        rate = _RATE * min(1.0, 2 * (1 - step / _STEPS))
        scale = np.sqrt(square / np.float32(1 - 0.99**step)) + np.float32(1e-8)
        weights -= np.float32(rate / (1 - 0.9**step)) * mean / scale
    return weights


def _print_tables(tables: Iterable[str], weights: Floats) -> None:
    values = iter(weights.tolist())
    for table in tables:
        print(f"{table} = {{")
        for name in getattr(span_scores, table):
            print(f'    "{name}": {next(values):.2f},')
        print("}")


Extract = Callable[[Links, Span, Span], tuple[Floats, int] | None]


def _examples(sets: Iterable[tuple[str, Aligned]], extract: Extract) -> dict[str, Examples]:
    """Examples of each set in both directions, by name; sets without examples are omitted."""
    found = {}
    for name, aligned in sets:
        directions = (aligned, [_turned(*one) for one in aligned])
        for direction, pairs in zip(("", " reversed"), directions, strict=True):
            examples = list(islice(_extracted(pairs, extract), _MOST_EXAMPLES))
            if examples:
                found[name + direction] = Examples.of(examples)
    return found


def _turned(pair: TaggedPair, evidence: Evidence) -> tuple[TaggedPair, Evidence]:
    """The pair in the other direction; the order of the codes may then be invalid."""
    assert evidence.reverse is not None
    codes = tuple(Code(begin, end) for begin, end in pair.expected)
    expected = tuple((code.begin, code.end) for code in pair.markup.codes)
    turned = replace(
        pair, line=pair.reference, reference=pair.line, markup=Markup(codes), expected=expected
    )
    return turned, Evidence(evidence.reverse, evidence.target, evidence.source, evidence.weights)


def _extracted(aligned: Aligned, extract: Extract) -> Iterator[tuple[Floats, int]]:
    for pair, evidence in aligned:
        source, target = unit_pair(pair.source, pair.target, pair.markup)
        if not 0 < len(target) <= _MOST_UNITS:
            continue
        links = Links(source, target, evidence)
        for index in pair.inner:
            code = pair.markup.codes[index]
            one = extract(links, (code.begin, code.end), pair.expected[index])
            if one is not None:
                yield one


def _span_example(links: Links, code: Span, expected: Span) -> tuple[Floats, int] | None:
    """Features of all spans, for a code that encloses units in both texts."""
    (first, behind), (begin, end) = _units(links.source, code), _units(links.target, expected)
    if first >= behind or begin >= end:
        return None
    size = len(links.target)
    one = span_scores.span_features(links, first, behind - 1, 0, size)
    sums = np.zeros((len(one.unit), size + 1), np.float32)
    np.cumsum(one.unit, axis=1, out=sums[:, 1:])
    firsts, lasts = np.triu_indices(size)
    features = (
        *(sums[:, lasts + 1] - sums[:, firsts], one.begin[:, firsts], one.end[:, lasts]),
        one.span[:, firsts, lasts],
    )
    index = np.flatnonzero((firsts == begin) & (lasts == end - 1))
    return np.concatenate(features), int(index[0])


def _gap_example(links: Links, code: Span, expected: Span) -> tuple[Floats, int] | None:
    """Features of all gaps, for a code that encloses no unit."""
    (gap, behind), (found, end) = _units(links.source, code), _units(links.target, expected)
    if gap < behind or found < end or not 0 < gap < len(links.source):
        return None
    return span_scores.gap_features(links, gap, 0, len(links.target)), found


def _units(units: Units, span: Span) -> Span:
    """The first unit that a span encloses, and the one after the last."""
    first = int(np.searchsorted(units.begins, span[0]))
    return first, max(first, int(np.searchsorted(units.ends, span[1], side="right")))


if __name__ == "__main__":
    main()

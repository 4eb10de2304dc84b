"""What a model's attention heads do: by position on real text, by meaning in made-up sentences.

For each head, the first tables show the average distribution of its attention over the sentences of
a held-out text, in every direction of the model. The last table shows for each probe
(`lab/attention/head_probes.py`) which encoder head is best at attending to the right word rather
than the other one. It is chosen on one half of the sentences and evaluated on the other half, since
one of two dozen heads does well on a few sentences by luck.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from dragoman_serving.scoring.score_graphs import AttentionGraph
from dragoman_serving.scoring.token_pair import TokenPair
from dragoman_training.text.parallel_text import read_directions

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest
from lab.attention.head_probes import Case, Probe, probes
from lab.measurement import (
    BUNDLE,
    DATA_DIR,
    Advance,
    Results,
    number,
    option,
    program,
    progress,
)
from lab.report import markdown_table

_WORDS_FROM = 1
"""Index of the first word; the source's first token is the tag."""
Floats = npt.NDArray[np.float64]
Head = tuple[int, int]
"""Layer and head, from 0."""


Habits = dict[str, Floats]
"""Distribution of each head's attention: arrays [L, H] by their name."""


class Looker:
    """Computes attention weights of sentences with a bundle's graph."""

    def __init__(self, bundle: Path) -> None:
        """Load it.

        Raises:
            UsageError: the bundle is damaged, or has no tags or no graph for attention.
        """
        self.manifest = Manifest.load(bundle)
        self.tokenizer = self.manifest.open_tokenizer(bundle)
        if not self.tokenizer.tags:
            raise UsageError(f"{bundle}: has no language tags, which the tables need")
        self._graph = AttentionGraph(bundle, self.manifest)

    def look(self, text: str, target_language: str, target: str = "") -> tuple[Floats, ...]:
        """Weights of encoder [L, H, S, S], decoder [L, H, T, T] and cross-attention."""
        src_ids = tuple(self.tokenizer.encode_source(text, target_language))
        attention = self._graph.run(TokenPair(src_ids, tuple(self.tokenizer.target.encode(target))))
        return tuple(weights.astype(np.float64) for weights in attention)

    def tokens(self, text: str, span: tuple[int, int]) -> list[int]:
        """Indices of the source tokens that contain some characters."""
        begin, end = span
        return [
            place
            for place, piece in enumerate(self.tokenizer.pieces(text), start=_WORDS_FROM)
            if piece.begin < end and piece.end > begin and piece.text != "▁"
        ]


@program(
    DATA_DIR,
    BUNDLE,
    option("--text", default="tatoeba-en-de/valid"),
    number("--sentences", 500, "a direction"),
)
def main(arguments: argparse.Namespace) -> Results:
    """Print the tables."""
    looker = Looker(arguments.bundle)
    known = looker.manifest.all_directions
    directions = read_directions(arguments.data_dir / arguments.text, known, arguments.sentences)
    pairs = [
        (src_text, tgt.language, tgt_text)
        for src, tgt in directions
        for src_text, tgt_text in zip(src.texts, tgt.texts, strict=True)
    ]
    with progress(len(pairs)) as advance:
        habits = measure(looker, pairs, advance)
    findings = [examine(looker, probe) for probe in probes()]
    for kind, shares in habits.items():
        print(markdown_table([kind, *shares], rows_of(shares)), end="\n\n")
    print(markdown_table(FINDING_COLUMNS, [finding.row for finding in findings]))
    heads = {kind: {n: v.tolist() for n, v in of_kind.items()} for kind, of_kind in habits.items()}
    return {"heads": heads, "probes": {finding.name: asdict(finding) for finding in findings}}


def measure(
    looker: Looker, pairs: Sequence[tuple[str, str, str]], advance: Advance
) -> dict[str, Habits]:
    """Average attention of each head, over texts with their target language and translation."""
    sums: dict[str, Habits] = {"encoder": {}, "decoder": {}, "cross": {}}
    measures = (("encoder", encoder_habits), ("decoder", decoder_habits), ("cross", cross_habits))
    for text, language, target in pairs:
        seen = looker.look(text, language, target)
        for (kind, habits), weights in zip(measures, seen, strict=True):
            for name, value in habits(weights).items():
                sums[kind][name] = sums[kind].get(name, 0.0) + value / len(pairs)
        advance("sentences")
    return sums


def encoder_habits(weights: Floats) -> dict[str, Floats]:
    """Habits of encoder self-attention [L, H, S, S]; queries are the text's own tokens."""
    places = np.arange(weights.shape[-1])
    words = weights[:, :, 1:-1]
    distance = np.abs(places[None, :] - places[1:-1, None])
    return {
        "token before": _diagonal(words, 0),
        "itself": _diagonal(words, 1),
        "token after": _diagonal(words, 2),
        "2 to 4 away": (words * ((distance > 1) & (distance < 5))).sum(-1).mean(-1),
        "5 or more": (words * (distance > 4)).sum(-1).mean(-1),
        "tag": words[..., 0].mean(-1),
        "end": words[..., -1].mean(-1),
        "bits": entropy(words).mean(-1),
    }


def decoder_habits(weights: Floats) -> dict[str, Floats]:
    """Habits of decoder self-attention [L, H, T, T], over all steps except the first."""
    steps = weights[:, :, 1:]
    return {
        "token just read": _diagonal(steps, 1),
        "token before": _diagonal(steps, 0),
        "start": steps[..., 0].mean(-1),
        "bits": entropy(steps).mean(-1),
    }


def cross_habits(weights: Floats) -> dict[str, Floats]:
    """Habits of cross-attention [L, H, T, S], over the translation's own tokens."""
    words = weights[:, :, :-1] if weights.shape[2] > 1 else weights
    return {
        "tag": words[..., 0].mean(-1),
        "end": words[..., -1].mean(-1),
        "one token": words[..., 1:-1].max(-1, initial=0.0).mean(-1),
        "bits": entropy(words).mean(-1),
    }


def entropy(weights: Floats) -> Floats:
    """Entropy of rows in bits: 0 if one token gets all, 3 if eight share equally."""
    bits: Floats = -(weights * np.log2(np.maximum(weights, 1e-12))).sum(-1)
    return bits


def _diagonal(rows: Floats, offset: int) -> Floats:
    """Mean weight of query i on key i + offset: [L, H]."""
    mean: Floats = np.diagonal(rows, offset, axis1=-2, axis2=-1).mean(-1)
    return mean


FINDING_COLUMNS = (
    *("probe", "sentences", "tokens away", "head", "right", "weight", "other", "control"),
    "all heads",
)


@dataclass(frozen=True)
class Finding:
    """Result of the best head on a probe's second half.

    `right` is the share of cases in which the wanted word gets more attention than the other;
    `weight` is the attention of the wanted word, `other` that of the other word, `control` that of
    the wanted word in the controls, and `mean_weight` the wanted word's average over all heads.
    """

    name: str
    cases: int
    distance: float
    head: Head
    right: float
    weight: float
    other: float
    control: float | None
    mean_weight: float

    @property
    def row(self) -> list[str]:
        """A row of the table."""
        return [
            *(self.name, str(self.cases), f"{self.distance:.1f}", f"{self.head[0]}.{self.head[1]}"),
            *(f"{self.right:.0%}", f"{self.weight:.2f}", f"{self.other:.2f}"),
            "" if self.control is None else f"{self.control:.2f}",
            f"{self.mean_weight:.2f}",
        ]


def examine(looker: Looker, probe: Probe) -> Finding:
    """Choose the best head for a probe, and evaluate it on other sentences.

    With twins, the head that is correct most often is chosen. With controls, it is the head with
    the largest increase in attention to the wanted word over the controls; otherwise the head that
    gives it most attention.
    """
    wanted, other = _weigh_all(looker, probe.cases)
    control = _weigh_all(looker, probe.controls)[0] if probe.controls else None
    chosen, judged = halves(len(wanted), probe.twins)
    right = wanted > other
    quality = wanted - (0.0 if control is None else control)
    if probe.twins:
        quality = right + 1e-3 * wanted  # ties: the head with more attention
    of_heads = quality[chosen].mean(axis=0)
    layer, head = np.unravel_index(int(of_heads.argmax()), of_heads.shape)

    def of_judged(values: Floats) -> float:
        return float(values[judged, layer, head].mean())

    return Finding(
        probe.name,
        len(judged),
        float(np.mean([distance(looker, case) for case in probe.cases])),
        (int(layer), int(head)),
        of_judged(right.astype(np.float64)),
        of_judged(wanted),
        of_judged(other),
        None if control is None else of_judged(control),
        float(wanted[judged].mean()),
    )


def _weigh_all(looker: Looker, cases: Sequence[Case]) -> tuple[Floats, Floats]:
    """Weights of the wanted words and of the others, [N, L, H] each."""
    weighed = [weigh(looker, case) for case in cases]
    wanted, other = (np.stack(side) for side in zip(*weighed, strict=True))
    return wanted, other


def halves(cases: int, twins: bool) -> tuple[list[int], list[int]]:
    """Indices of the cases for choosing and for evaluating a head; twins stay together."""
    group = 2 if twins else 1
    first = [case for case in range(cases) if case // group % 2 == 0]
    return first, [case for case in range(cases) if case not in first]


def weigh(looker: Looker, case: Case) -> tuple[Floats, Floats]:
    """Attention of the attending word to the wanted word and to the other: [L, H] each."""
    (encoder, *_) = looker.look(case.text, case.target_language)
    looks = encoder[:, :, _places(looker, case, case.looks)].mean(axis=2)  # [L, H, S]
    wanted, other = (
        looks[..., _places(looker, case, word)].sum(-1) for word in (case.wanted, case.other)
    )
    return wanted, other


def distance(looker: Looker, case: Case) -> int:
    """Number of tokens from the attending word to the wanted one."""
    return abs(_places(looker, case, case.looks)[0] - _places(looker, case, case.wanted)[0])


def rows_of(habits: Habits) -> list[list[str]]:
    """A row for each head."""
    layers, heads = next(iter(habits.values())).shape
    return [
        [f"{layer}.{head}", *(f"{values[layer, head]:.2f}" for values in habits.values())]
        for layer in range(layers)
        for head in range(heads)
    ]


def _places(looker: Looker, case: Case, word: str) -> list[int]:
    return looker.tokens(case.text, case.span(word))


if __name__ == "__main__":
    sys.exit(main())

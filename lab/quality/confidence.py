"""How well the model's confidence separates bad translations from good ones.

Each direction of a test set is translated, and each translation is compared with its reference by
chrF. The study reports Spearman's correlation of chrF with the confidence (the mean log-probability
of a token), and for comparison with beam search's score and with the translation's length; mean
chrF by tenths of the confidence; and mean chrF of the rest if the least confident translations are
dropped. chrF of one sentence is a coarse measure: a good translation in other words scores low.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import sacrebleu
from dragoman_load_test.reports.plots import COLOURS
from dragoman_options.arguments import OptionArguments
from dragoman_serving.translation.translator import Translator
from dragoman_training.text.parallel_text import Side, read_directions
from matplotlib.figure import Figure

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest
from lab.measurement import (
    BEAM_WIDTH,
    BUNDLE,
    DATA_DIR,
    Advance,
    Results,
    number,
    option,
    program,
    progress,
)
from lab.pictures import draw_svg
from lab.report import markdown_table

_TOGETHER = 64
_KEPT = (1.0, 0.9, 0.8, 0.7, 0.5, 0.3)
"""Shares of the translations, most confident first, whose chrF is reported."""
_FEWEST = 10
"""Minimum number of sentences of a direction."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Direction:
    """Translations of one direction: the scores of each, and its quality."""

    name: str
    confidence: list[float]
    score: list[float]
    tokens: list[int]
    chrf: list[float]

    @property
    def order(self) -> npt.NDArray[np.int64]:
        """Indices, most confident first."""
        return np.argsort(-np.array(self.confidence), kind="stable")


@program(
    DATA_DIR,
    BUNDLE,
    option("--test", default="tatoeba-en-de/test"),
    number("--sentences", 1000, "a direction"),
    BEAM_WIDTH,
    option("--plot", type=Path, metavar="FILE", help="write a figure, as SVG"),
)
def main(arguments: argparse.Namespace) -> Results:
    """Print tables, and write the figure."""
    known = Manifest.load(arguments.bundle).all_directions
    directions = read_directions(arguments.data_dir / arguments.test, known, arguments.sentences)
    sentences = len(directions[0][0].texts)
    if sentences < _FEWEST:
        raise UsageError(f"{sentences} sentences: tenths of them need {_FEWEST} or more")
    translator = Translator(arguments.bundle)
    with progress(len(directions) * sentences) as advance:
        measured = [
            measure(translator, src, tgt, arguments.beam_width, advance) for src, tgt in directions
        ]
    translator.close()
    names = [direction.name for direction in measured]
    print(markdown_table(["direction", "of", "correlation with chrF"], correlations(measured)))
    print(f"\n{markdown_table(['confidence', *names], by_tenths(measured))}")
    print(f"\n{markdown_table(['kept', *names], by_coverage(measured))}")
    if arguments.plot:
        arguments.plot.write_text(draw(measured), encoding="utf-8")
    return {"directions": [asdict(direction) for direction in measured]}


def measure(
    translator: Translator,
    src: Side,
    tgt: Side,
    beam_width: int,
    advance: Advance = lambda _: None,
) -> Direction:
    """Translate one side and compare it with the other."""
    name = f"{src.language}-{tgt.language}"
    options = OptionArguments(
        source_language=src.language,
        target_language=tgt.language,
        beam_width=beam_width,
        return_scores=True,
        return_confidence=True,
    )
    chrf = sacrebleu.CHRF()
    direction = Direction(name, [], [], [], [])
    for begin in range(0, len(src.texts), _TOGETHER):
        chunk = slice(begin, begin + _TOGETHER)
        translated = translator.translate(src.texts[chunk], options)
        for reference, translation in zip(tgt.texts[chunk], translated, strict=True):
            assert translation.confidence is not None
            assert translation.score is not None
            direction.confidence.append(translation.confidence)
            direction.score.append(translation.score)
            direction.tokens.append(translation.output_tokens)
            direction.chrf.append(chrf.sentence_score(translation.text, [reference]).score)
            advance(name)
    return direction


def ranks(values: Sequence[float]) -> Floats:
    """The rank of each value, from 1; equal values share their mean rank."""
    _, inverse, counts = np.unique(np.array(values), return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    shared: Floats = (ends - (counts - 1) / 2)[inverse]
    return shared


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's rank correlation."""
    return float(np.corrcoef(ranks(x), ranks(y))[0, 1])


def interval(correlation: float, count: int) -> tuple[float, float]:
    """The 95 % confidence interval of a Spearman correlation, by Fisher's transformation.

    Too few pairs give the full range, and a correlation of 1 gives only itself.

    Source: Bonett and Wright 2000, https://doi.org/10.1007/BF02294183, for the standard error.
    """
    if count <= 3:
        return -1.0, 1.0
    if abs(correlation) >= 1.0:
        return correlation, correlation
    error = 1.96 * math.sqrt((1 + correlation**2 / 2) / (count - 3))
    centre = math.atanh(correlation)
    return math.tanh(centre - error), math.tanh(centre + error)


def correlations(directions: Sequence[Direction]) -> list[list[str]]:
    """Rows of a table."""
    rows = []
    for direction in directions:
        for what, values in (
            ("confidence", direction.confidence),
            ("score", direction.score),
            ("number of tokens", direction.tokens),
        ):
            correlation = spearman(values, direction.chrf)
            low, high = interval(correlation, len(values))
            rows.append([direction.name, what, f"{correlation:+.2f} ({low:+.2f} to {high:+.2f})"])
    return rows


def tenths(direction: Direction) -> list[float]:
    """Mean chrF of each tenth, the least confident first."""
    parts = np.array_split(np.array(direction.chrf)[direction.order[::-1]], 10)
    return [float(part.mean()) for part in parts]


def by_tenths(directions: Sequence[Direction]) -> list[list[str]]:
    """Rows of a table."""
    names = ["lowest tenth", *(f"{number}." for number in range(2, 10)), "highest tenth"]
    columns = [tenths(direction) for direction in directions]
    return [
        [name, *(f"{column[number]:.1f}" for column in columns)]
        for number, name in enumerate(names)
    ]


def kept(direction: Direction) -> Floats:
    """Mean chrF of the most confident 1, 2, 3 and so on."""
    chrf = np.array(direction.chrf)[direction.order]
    means: Floats = np.cumsum(chrf) / np.arange(1, len(chrf) + 1)
    return means


def by_coverage(directions: Sequence[Direction]) -> list[list[str]]:
    """Rows of a table."""
    return [
        [
            f"{part:.0%}",
            *(
                f"{kept(direction)[max(0, round(part * len(direction.chrf)) - 1)]:.1f}"
                for direction in directions
            ),
        ]
        for part in _KEPT
    ]


def draw(directions: Sequence[Direction]) -> str:
    """Mean chrF by tenths of the confidence, and of what is kept, as SVG."""

    def fill(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        places = np.arange(1, 11)
        width = 0.8 / len(directions)
        for index, (direction, colour) in enumerate(
            zip(directions, itertools.cycle(COLOURS), strict=False)
        ):
            offset = width * (index - (len(directions) - 1) / 2)
            left.bar(places + offset, tenths(direction), width, color=colour, label=direction.name)
            share = 100 * np.arange(1, len(direction.chrf) + 1) / len(direction.chrf)
            right.plot(share[9:], 100 - kept(direction)[9:], color=colour, label=direction.name)
        left.set(xlabel="tenth of the confidence, the lowest first", ylabel="mean chrF")
        left.set_xticks(places)
        right.set(xlabel="translations kept, most confident first (%)", ylabel="100 - mean chrF")
        for axes in (left, right):
            axes.legend()

    return draw_svg((9, 3.4), fill)


if __name__ == "__main__":
    sys.exit(main())

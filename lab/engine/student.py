"""Speed-up and quality loss of a smaller model compared with the shipped one.

Run from the project's folder on an otherwise idle machine:

    python -m lab.engine.student STUDENT --data-dir CORPORA

STUDENT is a bundle. The engine runs each model in its own process, without a server, tokenization
included, with the length penalty of its bundle. Rounds alternate, so that a machine that slows down
affects both. Quality is measured on all sentences of the test set, speed on the first of them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dragoman_training.run.evaluation import Quality, measure
from dragoman_training.text.parallel_text import Side, read_directions

from dragoman.kernel.errors import DragomanError
from dragoman.kernel.manifest import Manifest
from lab.conditions import close
from lab.console import positive, progress
from lab.engine.step import SHIPPED
from lab.peers.contenders import Run
from lab.peers.engine_race import Worker
from lab.peers.processes import EngineProcess
from lab.peers.racing import Runner, alternate
from lab.peers.worker_protocol import BatchSearch, Texts
from lab.report import markdown_table, search_name, spread

TEST = "tatoeba-en-de/test"
CASES = ((1, 1), (1, 32), (4, 1), (4, 32))
"""Beam width and batch size."""


@dataclass(frozen=True)
class Direction:
    """A direction of a test set."""

    source: Side
    target: Side

    def __str__(self) -> str:
        """Its name in the tables."""
        return f"{self.source.language}-{self.target.language}"

    def texts(self, sentences: int | None = None) -> Texts:
        """The first sentences to translate, or all."""
        return Texts(self.source.texts[:sentences], self.target.language)


@dataclass(frozen=True)
class Model:
    """A model under comparison, served to requests with only a beam width."""

    worker: Worker
    length_penalty: float

    def translate(self, texts: Texts, beam_width: int, batch_size: int) -> Run:
        """Translate in the worker."""
        return self.worker.run(texts, BatchSearch(beam_width, batch_size, self.length_penalty))


def quality(model: Model, direction: Direction, beam_width: int) -> Quality:
    """Quality on all sentences."""
    run = model.translate(direction.texts(), beam_width, 64)
    return measure([output.text for output in run.outputs], direction.target.texts)


def quality_table(models: Sequence[Model], directions: Sequence[Direction]) -> str:
    """BLEU of both models in Markdown, followed by the signature."""
    rows, signatures = [], set()
    for direction in directions:
        for width in (1, 4):
            large, small = (quality(model, direction, width) for model in models)
            signatures |= {large.bleu_signature, small.bleu_signature}
            apart = small.bleu - large.bleu
            figures = (f"{large.bleu:.1f}", f"{small.bleu:.1f}", f"{apart:+.1f}")
            rows.append((str(direction), search_name(width), *figures))
    table = markdown_table(("direction", "search", "shipped", "student", "difference"), rows)
    return f"{table}\n\n{', '.join(signatures)}"


def speed_table(
    models: Sequence[Model],
    directions: Sequence[Direction],
    sentences: int,
    rounds: int,
    advance: Callable[[], None],
) -> str:
    """Sentences per second of both models, in Markdown."""
    rows = []
    for direction in directions:
        texts = direction.texts(sentences)
        for width, size in CASES:
            runners: dict[int, Runner] = {
                number: partial(model.translate, texts, width, size)
                for number, model in enumerate(models)
            }
            samples = alternate(runners, rounds, advance)
            large, small = ([run.elapsed_s for run in samples[number]] for number in runners)
            speeds = (f"{len(texts) / statistics.median(times):.0f}" for times in (large, small))
            ratios = [theirs / ours for theirs, ours in zip(large, small, strict=True)]
            rows.append((str(direction), search_name(width), str(size), *speeds, spread(ratios)))
    header = ("direction", "search", "batch", "shipped sent/s", "student sent/s")
    return markdown_table((*header, "ratio (min..max)"), rows)


def run(arguments: argparse.Namespace, words: Sequence[str]) -> None:
    """Measure both and print.

    Raises:
        DragomanError: something cannot be read or started, or the student has no direction of the
            test set.
    """
    load_1min = os.getloadavg()[0]
    shipped, student = map(Manifest.load, (SHIPPED, arguments.student))
    directions = [
        Direction(*sides)
        for sides in read_directions(arguments.data_dir / TEST, student.all_directions)
    ]
    with (
        EngineProcess(SHIPPED, arguments.precision, "texts") as large,
        EngineProcess(arguments.student, arguments.precision, "texts") as small,
        progress(2 * len(CASES) * len(directions) * arguments.rounds) as advance,
    ):
        models = (
            Model(large, shipped.limits.length_penalty),
            Model(small, student.limits.length_penalty),
        )
        print(f"{TEST}, BLEU:\n\n{quality_table(models, directions)}", flush=True)
        sizes = (arguments.sentences, arguments.rounds, partial(advance, "speed"))
        print(f"\n{speed_table(models, directions, *sizes)}")
    close("lab.engine.student", words, load_1min, {}, None)


def main(words: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Args:
        words: the command line without the module's name; None: `sys.argv`.

    Returns:
        0 done, 1 something failed, 2 usage.
    """
    words = sys.argv[1:] if words is None else words
    parser = argparse.ArgumentParser(
        prog="python -m lab.engine.student",
        description="Speed and quality of a smaller model compared with the shipped one.",
    )
    parser.add_argument("student", type=Path, help="its bundle")
    parser.add_argument("--data-dir", type=Path, required=True, help=f"folder with {TEST}")
    parser.add_argument("--sentences", type=positive, default=512, help="default: 512")
    parser.add_argument("--rounds", type=positive, default=3, help="default: 3")
    parser.add_argument("--precision", choices=("int8", "fp32"), default="int8")
    arguments = parser.parse_args(words)
    try:
        run(arguments, words)
    except DragomanError as error:
        print(f"lab.engine.student: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())

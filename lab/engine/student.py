"""Speed-up and quality loss of a smaller model compared with the shipped one.

STUDENT is a bundle. The engine runs each model in its own process, without a server, tokenization
included, with the length penalty of its bundle. Rounds alternate, so that a machine that slows down
affects both. Quality is measured on all sentences of the test set, speed on the first of them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from dragoman_training.run.evaluation import Quality, measure
from dragoman_training.text.parallel_text import Side, read_directions

from dragoman.kernel.manifest import Manifest
from lab.measurement import (
    DATA_DIR,
    SHIPPED,
    Results,
    alternate,
    number,
    option,
    program,
    progress,
    ratios,
)
from lab.peers.engine_race import PAUSE_S, Worker
from lab.peers.processes import start_engine
from lab.peers.workers.worker_protocol import Answer, BatchSearch, Texts
from lab.report import markdown_table, search_name, spread

TEST = "tatoeba-en-de/test"
CASES = ((1, 1), (1, 32), (4, 1), (4, 32))
"""Beam width and batch size."""


Direction = tuple[Side, Side]
"""The two sides of a test set."""


@dataclass(frozen=True)
class Model:
    """A model under comparison, served to requests with only a beam width."""

    worker: Worker
    length_penalty: float

    def translate(self, texts: Texts, beam_width: int, batch_size: int) -> Answer:
        """Translate in the worker."""
        return self.worker.run(texts, BatchSearch(beam_width, batch_size, self.length_penalty))


def qualities_of(
    models: Sequence[Model], directions: Sequence[Direction]
) -> list[tuple[str, int, list[Quality]]]:
    """Quality of both models on all sentences, by direction and beam width."""
    results = []
    for src, tgt in directions:
        texts = Texts(src.texts, tgt.language)
        for width in (1, 4):
            answers = (model.translate(texts, width, 64) for model in models)
            both = [measure(answer.texts or [], tgt.texts) for answer in answers]
            results.append((f"{src.language}-{tgt.language}", width, both))
    return results


def quality_table(qualities: Sequence[tuple[str, int, list[Quality]]]) -> str:
    """BLEU of both models, followed by the signature."""
    rows = []
    for direction, width, (large, small) in qualities:
        apart = small.bleu - large.bleu
        figures = (f"{large.bleu:.1f}", f"{small.bleu:.1f}", f"{apart:+.1f}")
        rows.append((direction, search_name(width), *figures))
    table = markdown_table(("direction", "search", "shipped", "student", "difference"), rows)
    signatures = dict.fromkeys(quality.bleu_signature for *_, both in qualities for quality in both)
    return f"{table}\n\n{', '.join(signatures)}"


Speed = tuple[str, int, int, int, list[list[float]]]
"""The direction, beam width, batch size, number of sentences, and the seconds of both models."""


def speeds_of(
    models: Sequence[Model], directions: Sequence[Direction], sentences: int, rounds: int
) -> list[Speed]:
    """Seconds of both models in alternating rounds, by direction and case."""
    results = []
    with progress(len(CASES) * len(directions)) as advance:
        for src, tgt in directions:
            name = f"{src.language}-{tgt.language}"
            texts = Texts(src.texts[:sentences], tgt.language)
            for width, size in CASES:
                runs = {
                    index: partial(model.translate, texts, width, size)
                    for index, model in enumerate(models)
                }
                answers = alternate(runs, rounds, pause_s=PAUSE_S)
                both = [[answer.elapsed_s for answer in answers[index]] for index in runs]
                results.append((name, width, size, len(texts), both))
                advance(name)
    return results


def speed_table(speeds: Sequence[Speed]) -> str:
    """Sentences per second of both models."""
    rows = []
    for direction, width, size, sentences, both in speeds:
        per_s = (f"{sentences / statistics.median(times):.0f}" for times in both)
        rows.append((direction, search_name(width), str(size), *per_s, spread(ratios(*both))))
    header = ("direction", "search", "batch", "shipped sent/s", "student sent/s")
    return markdown_table((*header, "ratio (min..max)"), rows)


@program(
    option("student", type=Path, help="its bundle"),
    DATA_DIR,
    number("--sentences", 512),
    number("--rounds", 3),
    option("--precision", choices=("int8", "fp32"), default="int8"),
)
def main(arguments: argparse.Namespace) -> Results:
    """Measure both and print."""
    shipped, student = map(Manifest.load, (SHIPPED, arguments.student))
    directions = read_directions(arguments.data_dir / TEST, student.all_directions)
    with (
        start_engine(SHIPPED, arguments.precision, "texts") as large,
        start_engine(arguments.student, arguments.precision, "texts") as small,
    ):
        models = (
            Model(large, shipped.limits.length_penalty),
            Model(small, student.limits.length_penalty),
        )
        qualities = qualities_of(models, directions)
        print(f"{TEST}, BLEU:\n\n{quality_table(qualities)}", flush=True)
        speeds = speeds_of(models, directions, arguments.sentences, arguments.rounds)
        print(f"\n{speed_table(speeds)}")
    return {
        "quality": [[*names, *map(asdict, both)] for *names, both in qualities],
        "speed": [[*names, both] for *names, both in speeds],
    }


if __name__ == "__main__":
    sys.exit(main())

"""Quality of sentence segmentation: five lines of a test set joined, compared with their ends.

If a line has two sentences, as in FLORES, a correct split between them lowers the precision. If a
line is a headline without a full stop, as in newstest, a correct segmentation lowers the recall. So
compare the two rows. Run from the project's folder:

    python -m lab.quality.sentence_ends --data-dir CORPORA
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterable
from pathlib import Path

import sentencex
from dragoman_training.text.parallel_text import read_lines

from dragoman.kernel.sentences import split_sentences
from lab.report import markdown_table

TESTS = (
    *(("newstest/newstest2014.en-de", "en"), ("newstest/newstest2014.en-de", "de")),
    *(("newstest/newstest2014.en-fr", "fr"), ("flores200/devtest", "en")),
    *(("flores200/devtest", "de"), ("flores200/devtest", "fr")),
    *(("tatoeba-en-de/test", "en"), ("tatoeba-en-de/test", "de"), ("tatoeba-en-fr/test", "fr")),
)
TOGETHER = 5

Split = Callable[[str, str], Iterable[str]]
"""Maps a text and its language to pieces that give the text when joined."""


def ends(pieces: Iterable[str]) -> set[int]:
    """The index after the last visible character of each piece, in characters."""
    found, begin = set(), 0
    for piece in pieces:
        found.add(begin + len(piece.rstrip()))
        begin += len(piece)
    return found


def measure(lines: list[str], language: str, split: Split) -> tuple[float, float]:
    """Precision and recall in percent."""
    right = found = there = 0
    for group in itertools.zip_longest(*[iter(lines)] * TOGETHER, fillvalue=""):
        text = " ".join(filter(None, group))
        wanted = ends(f"{line} " for line in group if line) - {len(text)}
        seen = ends(split(text, language)) - {len(text)}
        right, found, there = right + len(wanted & seen), found + len(seen), there + len(wanted)
    return 100 * right / found, 100 * right / there


def main() -> None:
    """Print a table, one row for each test set."""
    parser = argparse.ArgumentParser(prog="python -m lab.quality.sentence_ends")
    parser.add_argument("--data-dir", type=Path, required=True, help="folder of the test sets")
    arguments = parser.parse_args()
    splits: list[Split] = [
        lambda text, language: list(sentencex.segment(language, text)),
        lambda text, language: [
            sentence + kept for sentence, kept in split_sentences(text, language)
        ],
    ]
    rows = []
    for test, language in TESTS:
        lines = [line.strip() for line in read_lines(arguments.data_dir / test, language)]
        figures = [measure(list(filter(None, lines)), language, split) for split in splits]
        rows.append((f"{test}, {language}", *(f"{p:.1f}, {r:.1f}" for p, r in figures)))
    print(markdown_table(["precision, recall", "sentencex", "with corrections"], rows))


if __name__ == "__main__":
    main()

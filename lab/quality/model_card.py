"""The tables of a model card: the recorded quality, and translations that were not selected.

Run it after `dragoman evaluate BUNDLE --runtime engine --record`. The translations are of lines
100, 200, ..., 1,000 of everyday sentences and of news, and of lines 40, 80, ..., 400 of
documentation. The directions take turns.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from dragoman_options.arguments import OptionArguments
from dragoman_serving.translation.translator import Translator
from dragoman_training.text.cleaning import without_tags
from dragoman_training.text.parallel_text import read_lines

from lab.measurement import BUNDLE, DATA_DIR, program

BEAM_WIDTH = 4
LANGUAGES = {"en": "English", "de": "German", "fr": "French"}
DIRECTIONS = (("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en"))
SETS = {
    "everyday": ("tatoeba-en-{}/test", 100),
    "news": ("newstest/newstest2014.en-{}", 100),
    "documentation": ("markup-php-en-{}/test", 40),
}
"""Test set with the language other than English, and the distance of its lines."""
SHOWN = 10
_RECORDED = re.compile(rf"BLEU (\S+) (\w+)-(\w+), beam {BEAM_WIDTH}, int8")


def quality(measured: Mapping[str, float]) -> Iterator[str]:
    """Yields the rows of the table of recorded quality, as served."""
    yield "| test set | direction | BLEU | chrF |"
    yield "|---|---|--:|--:|"
    for name, bleu in measured.items():
        if match := _RECORDED.fullmatch(name):
            test, src, tgt = match.groups()
            chrf = measured[name.replace("BLEU", "chrF", 1)]
            direction = f"{LANGUAGES[src]} to {LANGUAGES[tgt]}"
            yield f"| `{test}` | {direction} | {bleu:.1f} | {chrf:.1f} |"


def of_direction(test: str, src: str, tgt: str) -> str:
    """Returns the name of a test set, with the language other than English."""
    return test.format(tgt if src == "en" else src)


def examples(translator: Translator, corpora: Path, test: str, distance: int) -> Iterator[str]:
    """Yields rows with a source, its translation and its reference."""
    for number in range(SHOWN):
        src, tgt = DIRECTIONS[number % len(DIRECTIONS)]
        prefix = corpora / of_direction(test, src, tgt)
        line = distance * (number + 1) - 1
        source, reference = (without_tags(read_lines(prefix, side)[line]) for side in (src, tgt))
        options = OptionArguments(source_language=src, target_language=tgt, beam_width=BEAM_WIDTH)
        (translation,) = translator.translate([source], options)
        yield f"| {source} | {translation.text} | {reference} |".replace("$", r"\$")


@program(DATA_DIR, BUNDLE, measures=False)
def main(arguments: argparse.Namespace) -> None:
    """Print the tables."""
    translator = Translator(arguments.bundle)
    print(*quality(translator.manifest.measured), sep="\n")
    for name, (test, distance) in SETS.items():
        print(f"\n| {name} | translation | reference |\n|---|---|---|")
        print(*examples(translator, arguments.data_dir, test, distance), sep="\n", flush=True)
    translator.close()


if __name__ == "__main__":
    sys.exit(main())

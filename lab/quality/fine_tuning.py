"""Gain of fine-tuning on a made-up domain, and its cost on general text.

Run from the project's folder:

    python -m lab.quality.fine_tuning --data-dir CORPORA --out FOLDER [--start-from MODEL]

Fine-tunes the shipped model, or another one of English and German, with `dragoman train`, with and
without general text, on a domain whose words the model cannot know. Prints BLEU before and after,
on held-out sentences of the domain, on everyday sentences and on FLORES-200, of the engine in fp32
with a beam of 4, and how many checks of `dragoman verify` each bundle passed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

from dragoman_export.bundle import export_bundle
from dragoman_export.parity import verify
from dragoman_serving.engine.settings import EngineSettings
from dragoman_serving.translation.translator import Translator
from dragoman_training.run.evaluation import measure
from dragoman_training.text.parallel_text import Side, TextFiles, read_directions

from dragoman.cli import main as dragoman
from dragoman.kernel.errors import UsageError
from lab.report import markdown_table
from tests.made_up_text import LANGUAGES, WORKSHOP, write_sentences

SHIPPED = Path("model_repository/translate/1/bundle")
GENERAL = "tatoeba-en-de/train"
TESTS = ("tatoeba-en-de/test", "flores200/devtest")
_PAIRS, _TEST_PAIRS, _GENERAL_PAIRS = 1000, 200, 20_000
_TESTED = 500
"""Number of sentences of each test set that are translated, in each direction."""
_VERIFIED = 4
"""Number of sentences of the domain on which a bundle is compared with PyTorch."""

Tests = Mapping[str, list[tuple[Side, Side]]]
"""By name, sources and references in each direction."""


def main() -> None:
    """Fine-tune, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m lab.quality.fine_tuning")
    parser.add_argument("--data-dir", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--out", type=Path, required=True, help="folder for text and runs")
    parser.add_argument("--start-from", type=Path, default=SHIPPED, help="bundle to start from")
    parser.add_argument("--set", action="append", default=[], help="see dragoman train")
    arguments = parser.parse_args()
    out: Path = arguments.out
    sentences = WORKSHOP.sentences(_PAIRS + _TEST_PAIRS, seed=1)
    own = write_sentences(out / "domain", sentences[:_PAIRS])
    write_sentences(out / "domain-test", sentences[_PAIRS:])
    pairs = islice(TextFiles(arguments.data_dir / GENERAL, LANGUAGES), _GENERAL_PAIRS)
    general = write_sentences(out / "general", [(src, tgt) for src, tgt in pairs])
    prefixes = [out / "domain-test", *(arguments.data_dir / name for name in TESTS)]
    both_ways = (LANGUAGES, LANGUAGES[::-1])
    tests = {prefix.name: read_directions(prefix, both_ways, _TESTED) for prefix in prefixes}
    rows = [("before", *measured(arguments.start_from, tests), "")]
    print(rows[-1], file=sys.stderr)
    for name, words in (
        ("with general text", ["--general-text", *map(str, general)]),
        ("without", []),
    ):
        run = out / name.replace(" ", "-")
        words += [f"--set={word}" for word in arguments.set]
        bundle = fine_tuned(arguments.start_from, own, run, words)
        rows.append((name, *measured(bundle, tests), checked(bundle, tests["domain-test"])))
        print(rows[-1], file=sys.stderr)
    headings = [
        f"{name} {src.language}-{tgt.language}" for name in tests for src, tgt in tests[name]
    ]
    print(markdown_table(("", *headings, "checks passed"), rows))


def fine_tuned(start: Path, text: Sequence[Path], run: Path, words: Sequence[str]) -> Path:
    """The bundle of a model that was fine-tuned on a text.

    Raises:
        UsageError: the run failed; its message says why.
    """
    files = ["--text", *map(str, text), "--out", str(run)]
    if dragoman(["train", "--start-from", str(start), *files, *words]):
        raise UsageError(f"{run}: the run failed")
    bundle = run / "bundle"
    export_bundle(run / "final", bundle, force=True)
    return bundle


def measured(bundle: Path, tests: Tests) -> list[str]:
    """BLEU of each test set in each direction."""
    found = []
    with closing(Translator(bundle, EngineSettings(precision="fp32"))) as translator:
        for src, tgt in (sides for directions in tests.values() for sides in directions):
            options = {
                "source_language": src.language,
                "target_language": tgt.language,
                "beam_width": 4,
                "split_sentences": False,
            }
            translations = translator.submit(src.texts, options).future.result()
            texts = [translation.text for translation in translations]
            found.append(f"{measure(texts, tgt.texts).bleu:.1f}")
    return found


def checked(bundle: Path, directions: Sequence[tuple[Side, Side]]) -> str:
    """Number of checks against PyTorch that a bundle passes."""
    texts = [
        (text, tgt.language) for src, tgt in directions for text in src.texts[: _VERIFIED // 2]
    ]
    outcomes = list(verify(bundle, texts))
    return f"{sum(outcome.passed for outcome in outcomes)} of {len(outcomes)}"


if __name__ == "__main__":
    main()

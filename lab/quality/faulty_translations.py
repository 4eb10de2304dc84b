"""How often translations are visibly faulty, what a second search repairs, and its cost."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from dragoman_serving.translation.faults import fault_of, is_copy
from dragoman_serving.translation.translator import Translator
from dragoman_training.run.evaluation import measure
from dragoman_training.text.cleaning import is_in_another_language
from dragoman_training.text.parallel_text import read_pairs

from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.text import Tokenizer
from lab.measurement import BEAM_WIDTH, BUNDLE, DATA_DIR, Results, number, program
from lab.report import markdown_table

TESTS = (
    ("tatoeba-en-de/test", ("en", "de")),
    ("tatoeba-en-fr/test", ("en", "fr")),
    ("flores200/devtest", ("en", "de")),
    ("flores200/devtest", ("en", "fr")),
    ("newstest/newstest2014.en-de", ("en", "de")),
    ("newstest/newstest2014.en-fr", ("en", "fr")),
    ("ntrex128/test", ("en", "de")),
    ("ntrex128/test", ("en", "fr")),
)
AT_ONCE = 250
_COLUMNS = ("test", "direction", "way", "bleu", "chrf", "seconds", "warnings")
RULES = ("repetition", "short", "long", "untranslated", "language")
"""`language` means that it is clearly in another language; responses do not warn of this."""
WAYS: tuple[tuple[str, dict[str, bool]], ...] = (
    ("one sentence", {"split_sentences": False, "repair": False}),
    ("cut", {"repair": False}),
    ("cut and repaired", {}),
)


def faults_of_references(
    tokenizer: Tokenizer, texts: Sequence[str], references: Sequence[str], tgt: str
) -> Counter[str]:
    """How many references a rule flags; correct translations should not be flagged."""
    faults: Counter[str] = Counter()
    for text, reference in zip(texts, references, strict=True):
        right = Hypothesis(tuple(tokenizer.target.encode(reference)), None, complete=True)
        if fault := fault_of(tokenizer.encode_source(text, tgt), right):
            faults[fault] += 1
        faults["untranslated"] += is_copy(text, reference)
        faults["language"] += is_in_another_language(reference, tgt)
    return faults


@program(DATA_DIR, BUNDLE, BEAM_WIDTH, number("--first", 1000, "lines of a test set"))
def main(arguments: argparse.Namespace) -> Results:
    """Print a table."""
    translator = Translator(arguments.bundle)
    tokenizer = translator.manifest.open_tokenizer(arguments.bundle)
    rows: list[list[str]] = []
    results: list[dict[str, Any]] = []
    of_references: Counter[str] = Counter()
    number_of_references = 0
    for test, languages in TESTS:
        pairs = read_pairs(arguments.data_dir / test, languages)[: arguments.first]
        for src, tgt in (languages, languages[::-1]):
            ordered = (pair if src == languages[0] else pair[::-1] for pair in pairs)
            texts, references = zip(*ordered, strict=True)
            of_references += faults_of_references(tokenizer, texts, references, tgt)
            number_of_references += len(references)
            for name, search_options in WAYS:
                options = {
                    **{"source_language": src, "target_language": tgt},
                    **{"beam_width": arguments.beam_width, **search_options},
                }
                begin_s = time.perf_counter()
                translations = [
                    translation
                    for begin in range(0, len(texts), AT_ONCE)
                    for translation in translator.translate(texts[begin : begin + AT_ONCE], options)
                ]
                took_s = time.perf_counter() - begin_s
                quality = measure([translation.text for translation in translations], references)
                warnings = Counter(
                    warning for translation in translations for warning in translation.warnings
                )
                warnings["language"] = sum(
                    is_in_another_language(translation.text, tgt) for translation in translations
                )
                names, scores = (test, f"{src}-{tgt}", name), (quality.bleu, quality.chrf)
                values = (*names, *scores, took_s, warnings)
                results.append(dict(zip(_COLUMNS, values, strict=True)))
                shares = (f"{warnings[rule] / len(translations):.1%}" for rule in RULES)
                figures = (*(f"{score:.2f}" for score in scores), f"{took_s:.1f}")
                rows.append([*names, *shares, *figures])
    translator.close()
    print(markdown_table(["test", "direction", "text", *RULES, "BLEU", "chrF", "s"], rows))
    shares = (f"{rule} {of_references[rule] / number_of_references:.1%}" for rule in RULES)
    print(f"\nof {number_of_references} references: {', '.join(shares)}")
    return {"results": results, "references": of_references}


if __name__ == "__main__":
    sys.exit(main())

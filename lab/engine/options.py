"""The cost of each request option in speed.

Run from the project's folder on an otherwise idle machine:

    python -m lab.engine.options --data-dir CORPORA

The sentences of a test set are sent to the in-process engine all at once, with each option in turn
and without options, repeatedly. The result is the throughput with an option over that without, for
each round. Sampling, and options that need no beam, are compared with greedy search, the others
with a beam of 4.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman_serving.translation.translator import Translator
from dragoman_training.text.parallel_text import read_pairs

from lab.conditions import conditions
from lab.console import positive, progress
from lab.report import markdown_table, spread

SHIPPED = Path("model_repository/translate/1/bundle")
GREEDY = {"beam_width": 1}
BEAM = {"beam_width": 4}
CASES: tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...] = (
    *((BEAM, option) for option in ({"beam_width": 8}, {"num_return_sequences": 4})),
    (BEAM, {"return_scores": True}),
    (BEAM, {"min_tokens": 3}),
    (BEAM, {"max_length_ratio": 1.5}),
    (BEAM, {"prefix": "Ich"}),
    (BEAM, {"patience": 2.0}),
    (BEAM, {"early_stopping": False}),
    (BEAM, {"repetition_penalty": 1.2}),
    (BEAM, {"no_repeat_ngram_size": 3}),
    (BEAM, {"suppress": ["Haus", "Tom"]}),
    (BEAM, {"glossary": json.dumps({"tom": "Thomas", "mary": "Maria"})}),
    (BEAM, {"keep_placeholders": True}),
    (BEAM, {"coverage_penalty": 0.2}),
    (BEAM, {"return_token_scores": True}),
    (BEAM, {"return_alignments": "hard"}),
    (BEAM, {"prefix": "Ich", "num_return_sequences": 4, "return_alternatives": True}),
    (BEAM, {"split_sentences": False}),
    (BEAM, {"repair": False}),
    (GREEDY, {"split_sentences": False}),
    (GREEDY, {"repair": False}),
    (GREEDY, {"repetition_penalty": 1.2}),
    (GREEDY, {"return_scores": True}),
    (GREEDY, {"temperature": 1.0, "seed": 1}),
    (GREEDY, {"top_k": 10, "seed": 1}),
    (GREEDY, {"top_p": 0.9, "seed": 1}),
)
"""The options to compare with, and the option."""


def elapsed_s(translator: Translator, texts: Sequence[str], options: Mapping[str, Any]) -> float:
    """Time to translate all texts at once."""
    asked = {"target_language": "de", **options}
    begin_s = time.perf_counter()
    translator.translate(texts, asked)
    return time.perf_counter() - begin_s


def main() -> None:
    """Measure and print."""
    load_1min = os.getloadavg()[0]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--bundle", type=Path, default=SHIPPED)
    parser.add_argument("--sentences", type=positive, default=400)
    parser.add_argument("--rounds", type=positive, default=5)
    arguments = parser.parse_args()
    pairs = read_pairs(arguments.data_dir / "tatoeba-en-de/test", ("en", "de"))
    texts = [pair[0] for pair in pairs[: arguments.sentences]]
    translator = Translator(arguments.bundle)
    rows, results = [], []
    with progress(len(CASES)) as advance:
        for base, option in CASES:
            asked = {**base, **option}
            ratios, speeds = [], []
            for number in range(arguments.rounds + 1):
                plain_s = elapsed_s(translator, texts, base)
                option_s = elapsed_s(translator, texts, asked)
                if number:  # the first round is a warm-up
                    ratios.append(plain_s / option_s)
                    speeds.append(len(texts) / option_s)
            name = ", ".join(f"{name} {_short(value)}" for name, value in option.items())
            width = "greedy" if base is GREEDY else "beam 4"
            speed = sorted(speeds)[len(speeds) // 2]
            rows.append((name, width, f"{speed:.0f}", spread(ratios)))
            results.append({"base": dict(base), "option": dict(option), "ratios": ratios})
            advance(name)
    translator.close()
    print(markdown_table(("option", "beside", "sent/s", "of the speed without"), rows))
    told = conditions("lab.engine.options", sys.argv[1:], load_1min)
    print(json.dumps({"conditions": told, "results": results}))


def _short(value: object) -> str:
    """A value as the table shows it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    main()

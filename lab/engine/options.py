"""The cost of each request option in speed.

The sentences of a test set are sent to the in-process engine all at once, with each option in turn
and without options, repeatedly. The result is the throughput with an option over that without, for
each round. Sampling, and options that need no beam, are compared with greedy search, the others
with a beam of 4.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

from dragoman_serving.translation.translator import Translator
from dragoman_training.text.parallel_text import read_lines

from lab.measurement import (
    BUNDLE,
    DATA_DIR,
    Results,
    alternate,
    number,
    program,
    progress,
    ratios,
    seconds,
)
from lab.report import markdown_table, search_name, spread

_BEAM: tuple[Mapping[str, Any], ...] = (
    *({"beam_width": 8}, {"num_return_sequences": 4}, {"return_scores": True}),
    *({"min_tokens": 3}, {"max_length_ratio": 1.5}, {"prefix": "Ich"}, {"patience": 2.0}),
    *({"early_stopping": False}, {"repetition_penalty": 1.2}, {"no_repeat_ngram_size": 3}),
    {"suppress": ["Haus", "Tom"]},
    {"glossary": json.dumps({"tom": "Thomas", "mary": "Maria"})},
    *({"keep_placeholders": False}, {"coverage_penalty": 0.2}, {"return_token_scores": True}),
    {"return_alignments": "hard"},
    {"prefix": "Ich", "num_return_sequences": 4, "return_alternatives": True},
    *({"split_sentences": False}, {"repair": False}),
)
_GREEDY: tuple[Mapping[str, Any], ...] = (
    *({"split_sentences": False}, {"repair": False}, {"repetition_penalty": 1.2}),
    *({"return_scores": True}, {"temperature": 1.0, "seed": 1}, {"top_k": 10, "seed": 1}),
    {"top_p": 0.9, "seed": 1},
)
CASES = [(4, options) for options in _BEAM] + [(1, options) for options in _GREEDY]
"""The beam width, and the options that are compared with none."""


@program(DATA_DIR, BUNDLE, number("--sentences", 400), number("--rounds", 5))
def main(arguments: argparse.Namespace) -> Results:
    """Measure and print."""
    texts = read_lines(arguments.data_dir / "tatoeba-en-de/test", "en")[: arguments.sentences]
    rows, results = [], []
    with (
        contextlib.closing(Translator(arguments.bundle)) as translator,
        progress(len(CASES)) as advance,
    ):
        for width, options in CASES:
            plain: Mapping[str, Any] = {"target_language": "de", "beam_width": width}
            runs = {
                name: partial(seconds, partial(translator.translate, texts, variant))
                for name, variant in {"plain": plain, "option": {**plain, **options}}.items()
            }
            taken = alternate(runs, arguments.rounds, warm_up=1)
            speeds = ratios(taken["plain"], taken["option"])
            name = ", ".join(f"{name} {_shown(value)}" for name, value in options.items())
            per_s = len(texts) / statistics.median(taken["option"])
            rows.append((name, search_name(width), f"{per_s:.0f}", spread(speeds)))
            results.append({"beam_width": width, "option": dict(options), "ratios": speeds})
            advance(name)
    print(markdown_table(("option", "beside", "sent/s", "of the speed without"), rows))
    return {"results": results}


def _shown(value: object) -> str:
    """A value as the table shows it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    sys.exit(main())

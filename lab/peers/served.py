"""Dragoman compared with CTranslate2, both behind Triton, under single-sentence gRPC requests.

Dragoman is the model `translate` of the repository, which does its own batching. CTranslate2 is a
Python model in the same server, with the same weights, batched by Triton's dynamic batcher: the
usual setup. First its settings are tuned; for each case, the one with the most sentences per second
is used.

A case is a search and a number of concurrent requests: that many clients each send a sentence, wait
for the translation and send the next (`lab.load`). Sentences come in a shuffled order, so that
short and long ones mix. Both servers of a case stay up, and rounds alternate between them, so that
a machine that slows down or speeds up affects both. The table of CPU time shows the CPU use of the
idle server, and whether anything else ran.

They differ in more than speed, as in `lab.peers.engine`. Before the speed, both translate some
sentences greedily; if their texts differ, nothing is measured.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from dragoman.kernel.errors import CheckFailed
from dragoman.kernel.manifest import Manifest
from dragoman.kernel.processors import usable_processors
from lab.measurement import DATA_DIR, Results, number, option, positive, program, progress
from lab.peers.contenders import LENGTH_PENALTY
from lab.peers.processes import converted
from lab.peers.served_endpoint import CTranslate2Servers, Endpoint, serve, with_precision
from lab.peers.served_race import (
    Case,
    Loads,
    Rounds,
    best_settings,
    check_errors,
    processor_table,
    race,
    settings,
    summary,
    throughput_table,
    try_all,
)
from lab.peers.test_set import read_test_set

TEST = "tatoeba-en-de/test"
LEAST_EQUAL = 0.95
"""Required share of equal greedy translations in fp32; with less, the models differ."""
COMPARED = 50
_PRECISIONS = {"fp32": "float32", "int8": "int8"}
"""Our precision and CTranslate2's compute type."""


def equal_share(ours: Endpoint, theirs: Endpoint, texts: Sequence[str], precision: str) -> float:
    """The share of equal greedy translations.

    Raises:
        CheckFailed: in fp32 there are too few.
    """
    pairs = zip(ours.translate(texts, 1), theirs.translate(texts, 1), strict=True)
    share = sum(our_text == their_text for our_text, their_text in pairs) / len(texts)
    if precision == "fp32" and share < LEAST_EQUAL:
        raise CheckFailed(
            f"only {share:.1%} of the greedy translations are equal, less than "
            f"{LEAST_EQUAL:.0%}: speeds of different translations are not compared"
        )
    return share


def play(
    precision: str, repository: Path, servers: CTranslate2Servers, loads: Loads, folder: Path
) -> Results:
    """Compare, tune and measure in one precision, and print."""
    candidates = settings(len(usable_processors()), _PRECISIONS[precision])
    ours_repository = with_precision(repository, precision, folder)
    with serve(ours_repository) as ours, servers.serve(candidates[0]) as theirs:
        share = equal_share(ours, theirs, loads.texts[:COMPARED], precision)
    print(f"\nEqual greedy translations: {share:.1%} of {len(loads.texts[:COMPARED])}.\n")
    with progress(len(candidates) * len(loads.cases)) as advance:
        trials = try_all(servers, candidates, loads, advance)
    best = best_settings(trials)
    contests: dict[Case, list[Rounds]] = {}
    with (
        serve(ours_repository) as ours,
        progress(2 * loads.rounds * len(loads.cases)) as advance,
    ):
        for case in loads.cases:
            with servers.serve(best[case]) as theirs:
                contenders = {f"Dragoman {precision}": ours, f"CTranslate2 {best[case]}": theirs}
                contests[case] = race(case, contenders, loads, advance)
    print(throughput_table(contests))
    print("\nCPU time, in percent of one core:\n")
    print(processor_table(contests), flush=True)
    check_errors(trials, contests)
    return {
        "precision": precision,
        "greedy_equal": share,
        "tuning": [
            {**asdict(case), **asdict(setting), "result": asdict(result)}
            for case, setting, result in trials
        ],
        "contests": summary(contests),
    }


@program(
    DATA_DIR,
    number("--sentences", 512),
    number("--seconds", 10, "measured, of each load"),
    number("--tuning-seconds", 2, "of each trial"),
    number("--rounds", 3, "of each case"),
    option("--beam-width", type=positive, nargs="+", default=[1, 4], help="default: 1 4"),
    option("--concurrency", type=positive, nargs="+", default=[1, 8, 32, 128], help="1 8 32 128"),
    option("--precisions", nargs="+", choices=_PRECISIONS, default=["fp32"], help="default: fp32"),
    option("--repository", type=Path, default=Path("model_repository"), help="of our model"),
    option("--bundle", type=Path, help="source of CTranslate2's model (default: the repository's)"),
)
def main(arguments: argparse.Namespace) -> Results:
    """Compare, tune, measure and report."""
    bundle = arguments.bundle or arguments.repository / "translate" / "1" / "bundle"
    manifest = Manifest.load(bundle)
    test = read_test_set(arguments.data_dir, TEST, arguments.sentences, bundle, manifest)
    cases = [Case(w, c) for w in arguments.beam_width for c in arguments.concurrency]
    loads = Loads(test.texts, cases, arguments.rounds, arguments.seconds, arguments.tuning_seconds)
    with tempfile.TemporaryDirectory() as folder, converted(bundle) as model:
        servers = CTranslate2Servers(model, bundle)
        matches = [
            play(precision, arguments.repository, servers, loads, Path(folder) / precision)
            for precision in arguments.precisions
        ]
    return {"length_penalty": LENGTH_PENALTY, "sentences": len(test.texts), "matches": matches}


if __name__ == "__main__":
    sys.exit(main())

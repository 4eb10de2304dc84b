"""Scoring of given translations: compiled code compared with the fp32 graph `score`.

Pairs of a test set, batched by length, on one core each, with and without alignments. Rounds
alternate.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

import numpy as np
from dragoman_serving.engine.compiled.compiled_network import NativeNetwork
from dragoman_serving.engine.compiled.library import choose_instruction_set
from dragoman_serving.scoring.compiled_scoring import NativeScoring
from dragoman_serving.scoring.score_graphs import ScoreGraph
from dragoman_serving.scoring.token_pair import PairScoring, TokenPair, like_lengths
from dragoman_training.text.parallel_text import read_pairs

from dragoman.kernel.manifest import Manifest
from lab.measurement import BUNDLE, DATA_DIR, Results, alternate, number, program, ratios, seconds
from lab.report import markdown_table, spread


def score_all(scoring: PairScoring, pairs: Sequence[TokenPair]) -> None:
    """Score all pairs, which are sorted by their lengths."""
    lengths = [(len(pair.tgt_ids) + 1, len(pair.src_ids)) for pair in pairs]
    for group in like_lengths(lengths):
        scoring.run(pairs[group])


def mean_score(scoring: PairScoring, pairs: Sequence[TokenPair]) -> float:
    """Mean log-probability of a token."""
    scores = [scoring.run([pair])[0].log_probs for pair in pairs]
    return float(np.mean([log_prob for of_pair in scores for log_prob in of_pair]))


@program(DATA_DIR, BUNDLE, number("--pairs", 400), number("--rounds", 5))
def main(arguments: argparse.Namespace) -> Results:
    """Measure and print."""
    manifest = Manifest.load(arguments.bundle)
    tokenizer = manifest.open_tokenizer(arguments.bundle)
    texts = read_pairs(arguments.data_dir / "tatoeba-en-de/test", ("en", "de"))
    network = NativeNetwork(arguments.bundle, manifest)
    scorings: dict[str, PairScoring] = {
        "compiled": NativeScoring(network, manifest.special_ids, manifest.alignment),
        "graph": ScoreGraph(arguments.bundle, manifest),
    }
    rows, results = [], []
    for aligned in (False, True):
        pairs = [
            TokenPair(
                tuple(tokenizer.encode_source(src, "de")),
                tuple(tokenizer.target.encode(tgt)),
                attention=aligned,
            )
            for src, tgt in texts[: arguments.pairs]
        ]
        pairs.sort(key=lambda pair: (len(pair.tgt_ids), len(pair.src_ids)))
        runs = {
            name: partial(seconds, partial(score_all, scoring, pairs))
            for name, scoring in scorings.items()
        }
        taken = alternate(runs, arguments.rounds, warm_up=1)
        times = ratios(taken["graph"], taken["compiled"])
        speeds = [len(pairs) / float(np.median(taken[name])) for name in scorings]
        name = "scores and alignments" if aligned else "scores"
        rows.append((name, *(f"{speed:.0f}" for speed in speeds), spread(times)))
        results.append({"outputs": name, "pairs_per_s": speeds, "ratios": times})
    head = ("outputs", "compiled, pairs/s", "fp32 graph, pairs/s", "ratio")
    print(f"{choose_instruction_set()}, one core:\n")
    print(markdown_table(head, rows))
    means = [mean_score(scoring, pairs) for scoring in scorings.values()]
    print("\nmean log-probability of a token: {:.4f}, in fp32 {:.4f}".format(*means))
    return {"results": results, "means": means}


if __name__ == "__main__":
    sys.exit(main())

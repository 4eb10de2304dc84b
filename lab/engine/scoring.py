"""Scoring of given translations: compiled code compared with the fp32 graph `score`.

Run from the project's folder on an otherwise idle machine:

    python -m lab.engine.scoring --data-dir CORPORA [--rounds N] [--json FILE]

Pairs of a test set, batched by length, on one core each, with and without alignments. Rounds
alternate.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from dragoman_serving.engine.compiled.compiled_network import NativeNetwork
from dragoman_serving.engine.compiled.library import choose_instruction_set
from dragoman_serving.scoring.compiled_scoring import NativeScoring
from dragoman_serving.scoring.pair import Pair, PairScoring, like_lengths
from dragoman_serving.scoring.score_graphs import ScoreGraph
from dragoman_training.text.parallel_text import read_pairs

from dragoman.kernel.manifest import Manifest
from lab.conditions import close
from lab.console import positive
from lab.report import markdown_table, spread

SHIPPED = Path("model_repository/translate/1/bundle")


def elapsed_s(scoring: PairScoring, pairs: Sequence[Pair]) -> float:
    """Time to score all pairs."""
    lengths = [(len(pair.tgt_ids) + 1, len(pair.src_ids)) for pair in pairs]
    begin_s = time.perf_counter()
    for group in like_lengths(lengths):
        scoring.run(pairs[group])
    return time.perf_counter() - begin_s


def mean_score(scoring: PairScoring, pairs: Sequence[Pair]) -> float:
    """Mean log-probability of a token."""
    scored = [scoring.run([pair])[0].log_probs for pair in pairs]
    return float(np.mean([log_prob for one in scored for log_prob in one]))


def main() -> None:
    """Measure and print."""
    load_1min = os.getloadavg()[0]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--bundle", type=Path, default=SHIPPED)
    parser.add_argument("--pairs", type=positive, default=400)
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    manifest = Manifest.load(arguments.bundle)
    tokenizer = manifest.open_tokenizer(arguments.bundle)
    texts = read_pairs(arguments.data_dir / "tatoeba-en-de/test", ("en", "de"))
    network = NativeNetwork(arguments.bundle, manifest)
    compiled = NativeScoring(network, manifest.special_ids, manifest.alignment)
    graph = ScoreGraph(arguments.bundle, manifest)
    rows, results = [], []
    for aligned in (False, True):
        pairs = [
            Pair(
                tuple(tokenizer.encode_source(src, "de")),
                tuple(tokenizer.target.encode(tgt)),
                attention=aligned,
            )
            for src, tgt in texts[: arguments.pairs]
        ]
        pairs.sort(key=lambda pair: (len(pair.tgt_ids), len(pair.src_ids)))
        elapsed_s(compiled, pairs), elapsed_s(graph, pairs)  # warm up, so that memory is allocated
        taken = [
            (elapsed_s(compiled, pairs), elapsed_s(graph, pairs)) for _ in range(arguments.rounds)
        ]
        ratios = [graph_s / compiled_s for compiled_s, graph_s in taken]
        speeds = [len(pairs) / float(np.median(one)) for one in zip(*taken, strict=True)]
        name = "scores and alignments" if aligned else "scores"
        rows.append((name, *(f"{speed:.0f}" for speed in speeds), spread(ratios)))
        results.append({"outputs": name, "pairs_per_s": speeds, "ratios": ratios})
    head = ("outputs", "compiled, pairs/s", "fp32 graph, pairs/s", "ratio")
    print(f"{choose_instruction_set()}, one core:\n")
    print(markdown_table(head, rows))
    means = [mean_score(one, pairs) for one in (compiled, graph)]
    print("\nmean log-probability of a token: {:.4f}, in fp32 {:.4f}".format(*means))
    close(
        "lab.engine.scoring",
        sys.argv[1:],
        load_1min,
        {"results": results, "means": means},
        arguments.json,
    )


if __name__ == "__main__":
    main()

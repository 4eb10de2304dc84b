"""Dragoman compared with CTranslate2, both behind Triton, under single-sentence gRPC requests.

Run from the project's folder on an otherwise idle machine:

    python -m lab.peers.served --data-dir CORPORA [--sentences N] [--json FILE]

Dragoman is the model `translate` of the repository, which does its own batching. CTranslate2 is a
Python model in the same server, with the same weights, batched by Triton's dynamic batcher: the
usual setup. First its settings are tuned; for each case, the one with the most sentences per second
is used.

A case is a search and a number of concurrent requests: that many clients each send a sentence, wait
for the translation and send the next (`lab.load`). Sentences come in a shuffled order, so
that short and long ones mix. Both servers of a case stay up, and rounds alternate between them, so
that a machine that slows down or speeds up affects both. The table of CPU time shows the CPU use of
the idle server, and whether anything else ran.

They differ in more than speed, as in `lab.peers.engine`. Before the speed, both translate
some sentences greedily; if their texts differ, nothing is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dragoman_training.text.parallel_text import read_lines

from dragoman.kernel.errors import CheckFailed, DragomanError, UsageError
from dragoman.kernel.manifest import Manifest
from lab.conditions import conditions
from lab.console import positive
from lab.peers.contenders import LENGTH_PENALTY, SOURCE_LANGUAGE, TARGET_LANGUAGE
from lab.peers.processes import convert_for_ctranslate2
from lab.peers.served_endpoint import CTranslate2Servers
from lab.peers.served_match import COMPARED, Loads, Match, Outcome, play
from lab.peers.served_report import Case, processor_table, throughput_table

TEST = "tatoeba-en-de/test"


def read_texts(data_dir: Path, sentences: int, bundle: Path) -> tuple[str, ...]:
    """The first sentences of the test set, without those that the model rejects.

    Args:
        data_dir: folder with the test set.
        sentences: number of sentences, rejected ones included.
        bundle: for its vocabulary and limits.

    Raises:
        UsageError: a file is missing, or no sentence is left.
    """
    manifest = Manifest.load(bundle)
    tokenizer = manifest.open_tokenizer(bundle)
    most = manifest.limits.max_source_tokens
    lines = read_lines(data_dir / TEST, SOURCE_LANGUAGE)[:sentences]
    kept = [
        line
        for line in lines
        if line.strip() and len(tokenizer.encode_source(line, TARGET_LANGUAGE)) <= most
    ]
    if not kept:
        raise UsageError(f"{data_dir / TEST}: no sentence that the model accepts")
    return tuple(kept)


def run(arguments: argparse.Namespace, words: Sequence[str]) -> None:
    """Compare, tune, measure and report.

    Raises:
        DragomanError: something cannot be read or started, the translations differ, or a request
            failed.
    """
    load_1min = os.getloadavg()[0]
    bundle = arguments.bundle or arguments.repository / "translate" / "1" / "bundle"
    loads = Loads(
        read_texts(arguments.data_dir, arguments.sentences, bundle),
        tuple(Case(w, c) for w in arguments.beam_width for c in arguments.concurrency),
        arguments.rounds,
        arguments.seconds,
        arguments.tuning_seconds,
    )
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        convert_for_ctranslate2(bundle, scratch / "model")
        servers = CTranslate2Servers(scratch / "model", bundle)
        for number, match in enumerate(arguments.precisions):
            place = scratch / str(number)
            place.mkdir()
            outcome = play(match, arguments.repository, servers, loads, place)
            outcomes.append(outcome)
            _print_outcome(outcome, loads)
    found = conditions("lab.peers.served", words, load_1min)
    print(f"{found['cpu']}, {found['cores']} cores: {found['command']}")
    if arguments.json:
        values = {
            **found,
            "length_penalty": LENGTH_PENALTY,
            "sentences": len(loads.texts),
            "matches": [outcome.summary() for outcome in outcomes],
        }
        arguments.json.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    _check_errors(outcomes)


def _print_outcome(outcome: Outcome, loads: Loads) -> None:
    compared = len(loads.texts[:COMPARED])
    print(f"\nEqual greedy translations: {outcome.greedy_equal:.1%} of {compared}.\n")
    print(throughput_table(outcome.contests))
    print("\nCPU time, in percent of one core:\n")
    print(processor_table(outcome.contests) + "\n", flush=True)


def _check_errors(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        for error in outcome.errors:
            raise CheckFailed(error)


def _match(text: str) -> Match:
    precision, separator, compute_type = text.partition("/")
    if not (precision and separator and compute_type):
        raise ValueError
    return Match(precision, compute_type)


_match.__name__ = "pair of precisions"  # argparse uses it in its message


def main(words: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Args:
        words: the command line without the module's name; None: `sys.argv`.

    Returns:
        0 done, 1 the translations differ or a request failed, 2 usage.
    """
    words = sys.argv[1:] if words is None else words
    arguments = _parser().parse_args(words)
    try:
        run(arguments, words)
    except DragomanError as error:
        print(f"lab.peers.served: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lab.peers.served",
        description="Dragoman and CTranslate2, both behind Triton, under concurrent requests.",
    )
    add = parser.add_argument
    add("--data-dir", type=Path, required=True, help=f"folder with {TEST}")
    add("--sentences", type=positive, default=512, help="of the test set (default: 512)")
    add("--seconds", type=positive, default=10, help="measured, of each load (default: 10)")
    add("--tuning-seconds", type=positive, default=2, help="of each trial (default: 2)")
    add("--rounds", type=positive, default=3, help="of each case (default: 3)")
    add("--beam-width", type=positive, nargs="+", default=[1, 4], help="default: 1 4")
    add("--concurrency", type=positive, nargs="+", default=[1, 8, 32, 128], help="1 8 32 128")
    add(
        "--precisions",
        type=_match,
        nargs="+",
        default=[Match("fp32", "float32")],
        help="pairs of our precision and CTranslate2's compute type (default: fp32/float32)",
    )
    add(
        "--repository",
        type=Path,
        default=Path("model_repository"),
        help="Triton model repository to serve (default: model_repository)",
    )
    add("--bundle", type=Path, help="source of CTranslate2's model (default: the repository's)")
    add("--json", type=Path, help="file for all results")
    return parser


if __name__ == "__main__":
    sys.exit(main())

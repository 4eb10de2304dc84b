"""Speed of our in-process engine compared with CTranslate2 with the same weights, on the CPU.

Run from the project's folder on an otherwise idle machine:

    python -m lab.peers.engine --data-dir CORPORA [--isa avx2|avxvnni|avx512vnni]
        [--sentences N] [--rounds N] [--skip-base] [--json FILE]

Neither uses a server. Each runs in its own process, since CTranslate2 runs at half its speed beside
ONNX Runtime. Both get one batch at a time and wait for all of it. There are two models:

- `base`: the size of the paper's base model, with random weights. Sources have 32 ids; all
  translations have 32 tokens, since the end symbol is suppressed in both. Nothing is tokenized.
- `shipped`: the shipped model on a test set's sentences; both tokenize within the measured time.

For each case, CTranslate2 gets its fastest setting: int8 or float32; all cores for one batch, one
core for each of as many sub-batches, or one core in total; sub-batches split by sentences or by
tokens. Then rounds alternate, so that a machine that slows down or speeds up affects both.

Before the speed, both translate the same sentences with the shipped model. If the greedy
translations in fp32 differ, or the BLEU of beam search differs by more than 0.3, the figures would
be those of two models, and nothing is measured. The precision of the fastest setting may differ
from ours, so the quality of all of them is printed.

The two differ in more than speed:

- Dragoman divides a beam's score by Wu et al.'s ((5 + length) / 6) ** alpha, CTranslate2 by length
  ** alpha, which favours longer translations. With the shipped model, each gets the alpha that is
  best for it on validation data (`LengthPenalties`); the base model's translations have one length,
  and both get 0.6.
- Dragoman limits each translation by the length of its own source. CTranslate2 has one limit for
  each call, that of the batch's longest source; the tables say how many translations reached the
  limit.

Both sides are restricted to one instruction set: `--isa`, or the one that our library chooses here.
All processes inherit the environment variables for it (`lab.peers.instruction_sets`). Our
processes report what they use; for CTranslate2, a process that translates one token logs what
CTranslate2 and its matrix library use. If one of them uses another instruction set, nothing is
measured. Our fp32 (`--fp32`) runs on ONNX Runtime, which chooses its own instructions.

CTranslate2 chooses its matrix library by the CPU: oneMKL on Intel's, else oneDNN, unless
CT2_USE_MKL is set. The JSON records all these variables, and what was reported.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dragoman.kernel.errors import DragomanError
from dragoman.kernel.manifest import Manifest
from lab.conditions import conditions
from lab.console import positive, progress
from lab.peers import same_translations
from lab.peers.base_model import SOURCE_TOKENS, TARGET_TOKENS
from lab.peers.contenders import LENGTH_PENALTY, LengthPenalties
from lab.peers.engine_part import (
    Models,
    Part,
    Plan,
    converted,
    measure_base,
    measure_shipped,
    start_peer,
)
from lab.peers.engine_race import PeerProcess
from lab.peers.engine_report import engine_table, memory_table, text_table
from lab.peers.instruction_sets import (
    INSTRUCTION_SETS,
    InstructionSet,
    PeerReport,
    check_peer,
    hold,
    probe_peer,
)
from lab.peers.processes import ComputeType, EngineProcess, Precision, Threads
from lab.peers.test_set import TestSet, read_test_set

BUNDLE = Path("model_repository/translate/1/bundle")
TEST = "tatoeba-en-de/test"
_PRECISIONS: tuple[tuple[Precision, ComputeType], ...] = (("fp32", "float32"), ("int8", "int8"))
"""Our names, and CTranslate2's."""


def compare(
    test: TestSet, models: Models, manifest: Manifest, penalties: LengthPenalties
) -> list[same_translations.Likeness]:
    """Get the same translations in all precisions of both.

    Raises:
        DragomanError: a contender ended.
    """
    asker = same_translations.Asker(test, models.bundle, manifest)
    found = {}
    with progress(2 * len(_PRECISIONS)) as advance:
        for ours, theirs in _PRECISIONS:
            with EngineProcess(models.bundle, ours, "ids") as process:
                found[f"Dragoman {ours}"] = asker.ask(process, penalties.ours)
            advance(f"same translations: Dragoman {ours}")
            with start_peer(models, PeerProcess(theirs, Threads(1, 1))) as process:
                found[f"CTranslate2 {theirs}"] = asker.ask(process, penalties.peer)
            advance(f"same translations: CTranslate2 {theirs}")
    return same_translations.compare(found, test.references)


def probe(models: Models, wanted: InstructionSet) -> dict[ComputeType, PeerReport]:
    """What CTranslate2 uses in each of its precisions; it must be what is wanted.

    Raises:
        DragomanError: it is something else, or CTranslate2 failed.
    """
    reports = {}
    for _, compute_type in _PRECISIONS:
        reports[compute_type] = probe_peer(models.converted, compute_type)
        check_peer(compute_type, reports[compute_type], wanted)
        print(f"{wanted}, CTranslate2's {compute_type}: {reports[compute_type]}", flush=True)
    return reports


def run(arguments: argparse.Namespace, words: Sequence[str]) -> None:
    """Compare, measure and report.

    Raises:
        DragomanError: something cannot be read or started, a side cannot be restricted to the
            instruction set, or the translations differ.
    """
    load_1min = os.getloadavg()[0]
    instruction_set = hold(arguments.isa)
    manifest = Manifest.load(arguments.bundle)
    test = read_test_set(arguments.data_dir, TEST, arguments.sentences, arguments.bundle, manifest)
    precisions: list[Precision] = ["int8", "fp32"] if arguments.fp32 else ["int8"]
    plan = Plan(precisions, arguments.rounds, instruction_set)
    penalties = LengthPenalties(arguments.length_penalty, arguments.peer_length_penalty)
    with converted(arguments.bundle, endless=False) as models:
        reports = probe(models, instruction_set)
        likenesses = compare(test, models, manifest, penalties)
        print(
            f"{TEST}, {len(test.texts)} sentences; length penalty {penalties.ours:g}, "
            f"CTranslate2's {penalties.peer:g}; BLEU {likenesses[0].bleu_signature}:\n"
        )
        print(same_translations.likeness_table(likenesses), flush=True)
        same_translations.check(likenesses)
        shipped = measure_shipped(test, models, plan, penalties)
    print(f"\nThe shipped model, the same sentences:\n\n{text_table(shipped.cases)}", flush=True)
    base = Part([], [], {})
    if not arguments.skip_base:
        base = measure_base(plan)
        print(f"\nBase size, {SOURCE_TOKENS} tokens in, {TARGET_TOKENS} out:\n")
        print(engine_table(base.cases))
    memories = [*shipped.memories, *base.memories]
    print(f"\n{memory_table(memories)}")
    found = conditions("lab.peers.engine", words, load_1min)
    print(f"\n{found['cpu']}, {found['cores']} cores: {found['command']}")
    if arguments.json:
        values: dict[str, Any] = {
            **found,
            "instruction_sets": {
                "asked": instruction_set,
                "dragoman": shipped.instruction_sets,
                "ctranslate2": {kind: asdict(report) for kind, report in reports.items()},
            },
            "length_penalties": {"shipped": asdict(penalties), "base": LENGTH_PENALTY},
            "weights_sha256": manifest.files[manifest.weights],
            "sentences_left_out": test.left_out,
            "likenesses": [asdict(likeness) for likeness in likenesses],
            "cases": [case.summary() for case in (*shipped.cases, *base.cases)],
            "memories": [asdict(memory) for memory in memories],
        }
        arguments.json.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


def main(words: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Args:
        words: the command line without the module's name; None: `sys.argv`.

    Returns:
        0 done; 1 the translations or the instruction sets differ, or something failed; 2 usage.
    """
    words = sys.argv[1:] if words is None else words
    parser = argparse.ArgumentParser(
        prog="python -m lab.peers.engine",
        description="Speed of the in-process engine and CTranslate2 with the same weights.",
    )
    parser.add_argument("--data-dir", type=Path, required=True, help=f"folder with {TEST}")
    parser.add_argument("--bundle", type=Path, default=BUNDLE, help=f"default: {BUNDLE}")
    parser.add_argument(
        "--sentences", type=positive, default=256, help="number of sentences (default: 256)"
    )
    for name, whose, default in (
        ("--length-penalty", "ours", LengthPenalties.ours),
        ("--peer-length-penalty", "CTranslate2's", LengthPenalties.peer),
    ):
        parser.add_argument(
            name,
            type=float,
            default=default,
            help=f"{whose} with the shipped model (default: {default}, from validation data)",
        )
    parser.add_argument(
        "--isa",
        choices=INSTRUCTION_SETS,
        help="instruction set of both sides (default: what our library chooses here)",
    )
    parser.add_argument("--rounds", type=positive, default=3, help="default: 3")
    parser.add_argument("--fp32", action="store_true", help="measure our fp32 as well as int8")
    parser.add_argument("--skip-base", action="store_true", help="only the shipped model")
    parser.add_argument("--json", type=Path, help="file for all results")
    arguments = parser.parse_args(words)
    try:
        run(arguments, words)
    except DragomanError as error:
        print(f"lab.peers.engine: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())

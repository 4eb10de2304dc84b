"""Speed of our in-process engine compared with CTranslate2 with the same weights, on the CPU.

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
All processes inherit the environment variables for it (`lab.peers.instruction_sets`). Our processes
report what they use; for CTranslate2, a process that translates one token logs what CTranslate2 and
its matrix library use. If one of them uses another instruction set, nothing is measured. Our fp32
(`--fp32`) runs on ONNX Runtime, which chooses its own instructions.

CTranslate2 chooses its matrix library by the CPU: oneMKL on Intel's, else oneDNN, unless
CT2_USE_MKL is set. The JSON records all these variables, and what was reported.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path

from dragoman.kernel.manifest import Manifest
from lab.measurement import BUNDLE, DATA_DIR, Results, number, option, program, progress
from lab.peers import same_translations
from lab.peers.contenders import LENGTH_PENALTY, TARGET_LANGUAGE, LengthPenalties
from lab.peers.engine_race import (
    Workload,
    check_lengths,
    memory_table,
    race_all,
    text_table,
    token_table,
)
from lab.peers.instruction_sets import (
    INSTRUCTION_SETS,
    check_ours,
    check_peer,
    hold,
    probe_peer,
)
from lab.peers.models.base_model import (
    SOURCE_TOKENS,
    TARGET_TOKENS,
    random_sources,
    write_random_bundle,
)
from lab.peers.processes import (
    ComputeType,
    PeerSetting,
    Precision,
    Threads,
    converted,
    start_engine,
    start_peer,
)
from lab.peers.test_set import TestSet, read_test_set
from lab.peers.workers.worker_protocol import BatchSearch, Texts

TEST = "tatoeba-en-de/test"
CASES = ((1, 1), (1, 8), (1, 32), (1, 64), (4, 1), (4, 8), (4, 32), (4, 64))
"""Beam width and batch size."""
_LEAST_SENTENCES = 12
_PRECISIONS: tuple[tuple[Precision, ComputeType], ...] = (("fp32", "float32"), ("int8", "int8"))
"""Our names, and CTranslate2's."""


def base_workloads() -> list[Workload]:
    """Two batches for each case, and some more sentences if batches are small."""
    workloads = []
    for width, size in CASES:
        inputs = random_sources(max(2 * size, _LEAST_SENTENCES))
        search = BatchSearch(width, size, LENGTH_PENALTY)
        source_tokens = len(inputs) * (SOURCE_TOKENS - 1)
        workloads.append(Workload("base", inputs, search, source_tokens, LENGTH_PENALTY))
    return workloads


def shipped_workloads(test: TestSet, penalties: LengthPenalties) -> list[Workload]:
    """All sentences of a test set, in every case."""
    inputs = Texts(test.texts, TARGET_LANGUAGE)
    searches = [BatchSearch(width, size, penalties.ours) for width, size in CASES]
    return [
        Workload("shipped", inputs, search, test.source_tokens, penalties.peer)
        for search in searches
    ]


def compare(
    test: TestSet, bundle: Path, model: Path, manifest: Manifest, penalties: LengthPenalties
) -> list[same_translations.Likeness]:
    """Get the same translations in all precisions of both.

    Raises:
        DragomanError: a contender ended.
    """
    tokenizer = manifest.open_tokenizer(bundle)
    inputs = same_translations.encoded(test, tokenizer, manifest.limits)
    translate = same_translations.translate
    translations = {}
    with progress(2 * len(_PRECISIONS)) as advance:
        for ours, theirs in _PRECISIONS:
            with start_engine(bundle, ours, "ids") as process:
                translated = translate(process, inputs, tokenizer, penalties.ours)
                translations[f"Dragoman {ours}"] = translated
            advance(f"same translations: Dragoman {ours}")
            with start_peer(model, bundle, PeerSetting(theirs, Threads(1, 1))) as process:
                translated = translate(process, inputs, tokenizer, penalties.peer)
                translations[f"CTranslate2 {theirs}"] = translated
            advance(f"same translations: CTranslate2 {theirs}")
    return same_translations.compare(translations, test.references)


@program(
    DATA_DIR,
    BUNDLE,
    number("--sentences", 256),
    option("--length-penalty", type=float, default=LengthPenalties.ours, help="ours"),
    option("--peer-length-penalty", type=float, default=LengthPenalties.peer, help="CTranslate2's"),
    option(
        "--isa",
        choices=INSTRUCTION_SETS,
        help="instruction set of both sides (default: what our library chooses here)",
    ),
    number("--rounds", 3),
    option("--fp32", action="store_true", help="measure our fp32 as well as int8"),
    option("--skip-base", action="store_true", help="only the shipped model"),
)
def main(arguments: argparse.Namespace) -> Results:
    """Compare, measure and report."""
    instruction_set = hold(arguments.isa)
    bundle, manifest = arguments.bundle, Manifest.load(arguments.bundle)
    test = read_test_set(arguments.data_dir, TEST, arguments.sentences, bundle, manifest)
    precisions: list[Precision] = ["int8", "fp32"] if arguments.fp32 else ["int8"]
    penalties = LengthPenalties(arguments.length_penalty, arguments.peer_length_penalty)
    how = (precisions, arguments.rounds, partial(check_ours, expected_set=instruction_set))
    with converted(bundle) as model:
        reports = {}
        for _, compute_type in _PRECISIONS:
            reports[compute_type] = probe_peer(model, compute_type)
            check_peer(compute_type, reports[compute_type], instruction_set)
            print(f"{instruction_set}, CTranslate2's {compute_type}: {reports[compute_type]}")
        likenesses = compare(test, bundle, model, manifest, penalties)
        print(
            f"{TEST}, {len(test.texts)} sentences; length penalty {penalties.ours:g}, "
            f"CTranslate2's {penalties.peer:g}; BLEU {likenesses[0].bleu_signature}:\n"
        )
        print(same_translations.likeness_table(likenesses), flush=True)
        same_translations.check(likenesses)
        shipped = shipped_workloads(test, penalties)
        cases, memories = race_all(shipped, bundle, model, *how)
    print(f"\nThe shipped model, the same sentences:\n\n{text_table(cases)}", flush=True)
    if not arguments.skip_base:
        with tempfile.TemporaryDirectory() as folder:
            base = write_random_bundle(Path(folder))
            with converted(base) as model:
                base_cases, base_memories = race_all(base_workloads(), base, model, *how)
        check_lengths(base_cases, TARGET_TOKENS)
        print(f"\nBase size, {SOURCE_TOKENS} tokens in, {TARGET_TOKENS} out:\n")
        print(token_table(base_cases))
        cases, memories = cases + base_cases, memories + base_memories
    print(f"\n{memory_table(memories)}")
    return {
        "instruction_set": instruction_set,
        "ctranslate2": {kind: asdict(report) for kind, report in reports.items()},
        "length_penalties": {"shipped": asdict(penalties), "base": LENGTH_PENALTY},
        "weights_sha256": manifest.files[manifest.weights],
        "sentences_left_out": test.left_out,
        "likenesses": [asdict(likeness) for likeness in likenesses],
        "cases": [case.summary() for case in cases],
        "memories": memories,
    }


if __name__ == "__main__":
    sys.exit(main())

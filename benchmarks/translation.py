"""Speed of the served model beside CTranslate2 with the same weights, in fp32 on the CPU.

Run from the project's folder, with nothing else at work on the machine:

    python -m benchmarks.translation --data-dir CORPORA [--sentences N] [--json FILE]

Dragoman is the whole service: Triton, driven over gRPC through `dragoman_client`, one request at a
time, holding one text or 32. CTranslate2 is the library in a process of its own
(`benchmarks.ctranslate2_worker`), called without a server, with the faster of two thread settings:
all cores for one batch, or one core for each of as many parts of it. Both get the same sentences in
the order of the test set, and tokenise within the time measured. Rounds alternate, so that a
machine that grows slower or faster does so for both.

Where they differ, apart from speed:

- Dragoman divides a beam's score by Wu et al.'s ((5 + length) / 6) ** alpha, CTranslate2 by
  length ** alpha, which favours longer translations. Both get alpha 0.6.
- Dragoman limits each translation by the length of its own source, CTranslate2 takes one limit a
  call, here that of the batch's longest source. Translations that run to the limit are longer
  there; the last columns of the table say how many did, and how much was written.

Before the speed, the same translations are asked of both: greedy, a text a request, where limits
agree too; then with beam search in batches, whose BLEU is compared. If the greedy ones differ on
more than a few sentences, the figures would be those of two models, and nothing is measured.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from benchmarks.contenders import (
    LENGTH_PENALTY,
    SOURCE_LANGUAGE,
    TARGET_LANGUAGE,
    Contender,
    CTranslate2Process,
    Run,
    ServedModel,
    Threads,
)
from benchmarks.report import Agreement, Case, Sample, agreement_table, search_name, speed_table
from dragoman.errors import CheckFailed, DragomanError, UsageError
from dragoman.manifest import Manifest
from dragoman.text import Tokenizer
from training import checkpoint
from training.data import read_pairs
from training.evaluation import measure

TESTS = ("tatoeba-en-de/test", "flores200/devtest")
BEAM_WIDTH = 4
BATCH_SIZE = 32
LEAST_GREEDY_EQUAL = 0.98
"""Rounding may turn a near tie; more than this, and something else is wrong."""
_PAUSE_S = 0.5
"""Between runs: the threads of the one before spin for a while before they sleep."""
_WARM_UP_BATCHES = 4
_PROJECT = Path(__file__).parents[1]
_PACKAGES = (
    *("dragoman", "dragoman-client", "onnxruntime", "nvidia-pytriton", "tritonclient"),
    *("ctranslate2", "sentencepiece", "numpy", "sacrebleu"),
)

Advance = Callable[[str], None]


@dataclass(frozen=True)
class TestSet:
    """Sentences that both can translate, with references; `left_out` were too long."""

    name: str
    texts: tuple[str, ...]
    references: tuple[str, ...]
    source_tokens: int
    left_out: int


@dataclass(frozen=True)
class Contenders:
    """Who is compared: CTranslate2 once a thread setting, the setting without OpenMP first."""

    dragoman: Contender
    ctranslate2: Mapping[str, Contender]

    def __iter__(self) -> Iterator[tuple[str | None, Contender]]:
        """In the order of a round; None names Dragoman."""
        yield None, self.dragoman
        yield from self.ctranslate2.items()


def read_test_set(
    data_dir: Path, name: str, sentences: int | None, bundle: Path, manifest: Manifest
) -> TestSet:
    """Read the first sentences of a test set, without those that the model does not take.

    Args:
        data_dir: where `name` begins.
        name: prefix of the two files.
        sentences: how many, the long ones counted; None for all.
        bundle: for its vocabulary.
        manifest: of the bundle.

    Raises:
        UsageError: a file is missing, or no sentence is left.
    """
    tokenizer = Tokenizer(bundle / manifest.tokenizer)
    pairs = read_pairs(data_dir / name, (SOURCE_LANGUAGE, TARGET_LANGUAGE))[:sentences]
    kept = []
    source_tokens = 0
    for src, tgt in pairs:
        length = len(tokenizer.encode_source(src, TARGET_LANGUAGE))
        if length <= manifest.limits.max_source_tokens:
            kept.append((src, tgt))
            source_tokens += length - 2  # the output is counted without specials too
    if not kept:
        raise UsageError(f"{data_dir / name}: no sentence that the model takes")
    texts, references = zip(*kept, strict=True)
    return TestSet(name, texts, references, source_tokens, len(pairs) - len(kept))


def compare(test: TestSet, contenders: Contenders, advance: Advance) -> Agreement:
    """Ask both for the same translations.

    Args:
        test: what to translate.
        contenders: who.
        advance: told of each run.
    """
    peer = next(iter(contenders.ctranslate2.values()))

    def both(beam_width: int, batch_size: int) -> tuple[Run, Run]:
        runs = []
        for contender in (contenders.dragoman, peer):
            runs.append(contender.translate(test.texts, beam_width, batch_size))
            advance(f"{test.name}: same translations, {search_name(beam_width)}")
        return runs[0], runs[1]

    greedy = both(1, 1)
    beam = both(BEAM_WIDTH, BATCH_SIZE)
    ours, theirs = (measure([o.text for o in run.outputs], test.references) for run in beam)
    return Agreement(
        test=test.name,
        sentences=len(test.texts),
        left_out=test.left_out,
        beam_width=BEAM_WIDTH,
        greedy_equal=equal_share(*greedy),
        beam_equal=equal_share(*beam),
        dragoman_bleu=ours.bleu,
        ctranslate2_bleu=theirs.bleu,
        bleu_signature=ours.bleu_signature,
    )


def equal_share(one: Run, other: Run) -> float:
    """Share of translations with the same text in the same number of tokens.

    The service does not tell its token ids, so two ways to write one text in equally many tokens
    would count as equal.
    """
    pairs = list(zip(one.outputs, other.outputs, strict=True))
    return sum((a.text, a.tokens) == (b.text, b.tokens) for a, b in pairs) / len(pairs)


def race(
    test: TestSet,
    contenders: Contenders,
    search: tuple[int, int],
    repeats: int,
    advance: Advance,
) -> Case:
    """Measure one test set, search and batch size.

    Args:
        test: what to translate.
        contenders: who; never two at a time.
        search: beam width and batch size.
        repeats: rounds, in each of which everyone runs once.
        advance: told of each run.
    """
    beam_width, batch_size = search
    for _, contender in contenders:
        contender.translate(test.texts[: _WARM_UP_BATCHES * batch_size], beam_width, batch_size)
    samples: dict[str | None, list[Sample]] = {name: [] for name, _ in contenders}
    for _ in range(repeats):
        for name, contender in contenders:
            time.sleep(_PAUSE_S)
            run = contender.translate(test.texts, beam_width, batch_size)
            tokens = sum(output.tokens for output in run.outputs)
            cut = sum(output.cut for output in run.outputs)
            samples[name].append(Sample(run.elapsed_s, tokens, cut))
            advance(f"{test.name}: {search_name(beam_width)}, batch {batch_size}")
    return Case(
        test=test.name,
        beam_width=beam_width,
        batch_size=batch_size,
        sentences=len(test.texts),
        source_tokens=test.source_tokens,
        dragoman=tuple(samples.pop(None)),
        ctranslate2={str(name): tuple(values) for name, values in samples.items()},
    )


def conditions(words: Sequence[str], load_1min: float) -> dict[str, Any]:
    """On what, with what and how it was measured.

    Args:
        words: the command line after the module's name.
        load_1min: load average when the program began.
    """
    return {
        "command": shlex.join(["python", "-m", "benchmarks.translation", *words]),
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "load_average_1min_at_start": load_1min,
        "openmp": {k: v for k, v in os.environ.items() if k.startswith(("OMP_", "GOMP_", "KMP_"))},
        "length_penalty": LENGTH_PENALTY,
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in _PACKAGES},
        },
    }


def run(arguments: argparse.Namespace, words: Sequence[str]) -> None:
    """Compare, measure and report.

    Raises:
        DragomanError: something cannot be read or started, or the translations differ.
    """
    load_1min = os.getloadavg()[0]
    bundle = arguments.bundle or arguments.repository / "translate" / "1" / "bundle"
    manifest = _check_same_model(bundle, arguments.repository)
    tests = [
        read_test_set(arguments.data_dir, name, arguments.sentences, bundle, manifest)
        for name in TESTS
    ]
    searches = [(width, size) for width in (1, BEAM_WIDTH) for size in (1, BATCH_SIZE)]
    with contextlib.ExitStack() as held:
        contenders = _start(held, bundle, arguments.repository)
        with _progress(4 * len(tests)) as advance:
            agreements = [compare(test, contenders, advance) for test in tests]
        print(agreement_table(agreements))
        print(f"\nBLEU: {agreements[0].bleu_signature}\n", flush=True)
        _check_agreement(agreements)
        runs_each = len(searches) * arguments.repeats * len(list(contenders))
        with _progress(runs_each * len(tests)) as advance:
            cases = [
                race(test, contenders, search, arguments.repeats, advance)
                for test in tests
                for search in searches
            ]
    print(speed_table(cases))
    found = conditions(words, load_1min)
    print(f"\n{found['cpu']}, {found['cores']} cores: {found['command']}")
    if arguments.json:
        values = {
            **found,
            "precision": {"dragoman": manifest.precision, "ctranslate2": "float32"},
            "weights_sha256": manifest.files[checkpoint.WEIGHTS],
            "agreement": [asdict(agreement) for agreement in agreements],
            "cases": [case.summary() for case in cases],
        }
        arguments.json.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


def _check_agreement(agreements: Sequence[Agreement]) -> None:
    for agreement in agreements:
        if agreement.greedy_equal < LEAST_GREEDY_EQUAL:
            raise CheckFailed(
                f"{agreement.test}: only {agreement.greedy_equal:.1%} of the greedy translations "
                f"are equal, less than {LEAST_GREEDY_EQUAL:.0%}: "
                "speeds of different translations are not compared"
            )


def _check_same_model(bundle: Path, repository: Path) -> Manifest:
    """The manifest of a bundle, which must be the one that the repository serves."""
    manifest = Manifest.load(bundle)
    served = Manifest.load(repository / "translate" / "1" / "bundle")
    if manifest.files != served.files:
        raise UsageError(
            f"{bundle}: is not the bundle that {repository} serves; make a repository of it with: "
            "dragoman publish BUNDLE --to DIR"
        )
    return manifest


def _start(held: contextlib.ExitStack, bundle: Path, repository: Path) -> Contenders:
    if importlib.util.find_spec("ctranslate2") is None:
        raise UsageError("ctranslate2 is not installed: pip install 'dragoman[benchmark]'")
    scratch = Path(held.enter_context(tempfile.TemporaryDirectory()))
    model = scratch / "model"
    # In a process of its own, so that this one, which holds the client, stays small and idle.
    command = [sys.executable, "-m", "benchmarks.ctranslate2_model", str(bundle.resolve())]
    if subprocess.run([*command, "--out", str(model)], cwd=_PROJECT).returncode:
        raise DragomanError(f"{bundle}: could not be converted; the message above says why")
    cores = len(os.sched_getaffinity(0))
    settings = dict.fromkeys((Threads(1, cores), Threads(cores, 1)))
    peers = {
        str(threads): held.enter_context(CTranslate2Process(model, bundle, threads))
        for threads in settings
    }
    return Contenders(held.enter_context(ServedModel(repository)), peers)


@contextlib.contextmanager
def _progress(runs: int) -> Iterator[Advance]:
    console = Console(stderr=True)
    # The tables go to stdout, between one bar and the next.
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("", total=runs)
        yield lambda what: bar.update(task, advance=1, description=what)


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


_positive.__name__ = "positive number"  # what argparse calls it in its message


def main(words: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Args:
        words: the command line without the module's name; None: `sys.argv`.

    Returns:
        0 done, 1 the translations differ or something failed, 2 usage.
    """
    words = sys.argv[1:] if words is None else words
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.translation",
        description="Speed of the served model beside CTranslate2 with the same weights.",
    )
    parser.add_argument(
        "--data-dir", type=Path, required=True, help=f"folder that holds {' and '.join(TESTS)}"
    )
    parser.add_argument(
        "--repository",
        type=Path,
        default=Path("model_repository"),
        help="Triton model repository to serve (default: model_repository)",
    )
    parser.add_argument(
        "--bundle",
        type=Path,
        help="bundle that CTranslate2's model is made of (default: the repository's)",
    )
    parser.add_argument(
        "--sentences", type=_positive, help="only so many of each test set (default: all)"
    )
    parser.add_argument("--repeats", type=_positive, default=3, help="rounds (default: 3)")
    parser.add_argument("--json", type=Path, help="file for all figures")
    arguments = parser.parse_args(words)
    try:
        run(arguments, words)
    except DragomanError as error:
        print(f"benchmarks.translation: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())

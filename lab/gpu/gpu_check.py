"""Checks that everything works on this GPU, and how fast it is; run by `make gpu-check`.

    python -m lab.gpu.gpu_check --data-dir CORPORA

It reports the machine, runs the tests marked `gpu`, and compares tokens of real sentences with the
oracle. Then it measures tokens per second of the base size, with the engine over ONNX Runtime CUDA
and over TensorRT, if available, and with PyTorch and the reference search. The results go to
docs/benchmarks-gpu.json, and a page made from them to docs/benchmarks-gpu.md, also after a failed
test or Ctrl-C.

`--device cpu` does a rehearsal with small numbers, which writes nothing without `--out`.

For a rented GPU, where minutes count, make the oracle's tokens beforehand, without a GPU:

    python -m lab.gpu.gpu_check --data-dir CORPORA --write-oracle FILE
    python -m lab.gpu.gpu_check --short --oracle FILE --out FOLDER
"""

from __future__ import annotations

import argparse
import json
import operator
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import sacrebleu
import torch
from dragoman_serving.engine.runtimes.device.gpu import gpu_obstacle
from dragoman_serving.engine.runtimes.tensorrt_library import local_compute_capability
from dragoman_training.oracle.search import beam_search, greedy_search
from dragoman_training.run import checkpoint

from dragoman.kernel.errors import DragomanError, UsageError
from dragoman.kernel.manifest import Dimensions, Manifest
from dragoman.kernel.settings import from_mapping, read_json
from lab.engine.step import step_weights
from lab.gpu.gpu_contenders import LENGTH_PENALTY, NAMES, Contender, Decode, contenders
from lab.gpu.gpu_report import Report, Speed, TokenCheck, in_markdown
from lab.measurement import SHIPPED
from lab.peers.contenders import TARGET_LANGUAGE
from lab.peers.models.base_model import (
    BASE,
    SOURCE_TOKENS,
    TARGET_TOKENS,
    random_sources,
    write_random_bundle,
)
from lab.peers.test_set import read_test_set
from lab.peers.workers.worker_protocol import TokenIds

JSON_FILE, TABLE_FILE = "benchmarks-gpu.json", "benchmarks-gpu.md"
BATCHES, SHORT_BATCHES = (1, 8, 32, 128, 512), (1, 32, 512)
PARTS = ("tests", "tokens", "speed")
WIDTHS = (1, 4)
_ROUNDS = 3
_EQUAL = {"fp32": 1.0, "fp16": 0.98, "bf16": 0.98, "int8": 0.6, "fp8": 0.6}
"""Share of sentences whose tokens must equal the oracle's."""
_MOST_BLEU_APART = {"fp32": 0.2, "fp16": 0.2, "bf16": 0.2, "int8": 2.0, "fp8": 2.0}
_ROWS = 256
_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 1, "fp8": 1}
"""Bytes of a weight; keys and values are in fp16 in 8-bit modes."""
_PACKAGES = ("torch", "onnxruntime-gpu", "onnxruntime", "tensorrt", "tensorrt-rtx", "cuda-bindings")


def environment(device: str) -> dict[str, str]:
    """The machine and the installed software."""
    facts = {"python": platform.python_version(), "machine": platform.machine()}
    for package in _PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            continue
    if device == "cuda":
        facts["gpu"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "unknown"
        facts["compute capability"] = local_compute_capability()
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        facts["driver"] = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    return facts


def run_tests(report: Report, folder: str = "tests/gpu") -> None:
    """Report the last line of pytest on the tests that need a GPU, and whether one failed."""
    command = [sys.executable, "-m", "pytest", "-q", "-rs", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    print(done.stdout, done.stderr, flush=True)
    report.tests = (done.stdout.strip().splitlines() or ["pytest printed nothing"])[-1]
    if done.returncode not in (0, 5):  # 5: no tests were found
        report.failures.append(f"tests: {report.tests}")


@dataclass(frozen=True)
class Oracle:
    """Real sentences with the reference search's tokens, and texts for a calibration."""

    identity: str
    """Of the bundle."""
    sources: tuple[tuple[int, ...], ...]
    max_tokens: tuple[int, ...]
    references: tuple[str, ...]
    greedy: tuple[tuple[int, ...], ...]
    beam_4: tuple[tuple[int, ...], ...]
    calibration: tuple[tuple[int, ...], ...]


def make_oracle(bundle: Path, data_dir: Path, sentences: int) -> Oracle:
    """Translate the first sentences of a test set by the reference search.

    Raises:
        UsageError: the test set cannot be read.
    """
    manifest = Manifest.load(bundle)
    model = checkpoint.load(bundle).model
    test = read_test_set(data_dir, "tatoeba-en-de/test", sentences, bundle, manifest)
    other = read_test_set(data_dir, "tatoeba-en-de/valid", 128, bundle, manifest)
    tokenizer = manifest.open_tokenizer(bundle)
    sources, calibration = (
        tuple(tuple(tokenizer.encode_source(text, TARGET_LANGUAGE)) for text in texts)
        for texts in (test.texts, other.texts)
    )
    limits = tuple(manifest.limits.target_tokens(len(ids)) for ids in sources)
    searches = (
        greedy_search(model, sources, limits),
        beam_search(model, sources, limits, 4, LENGTH_PENALTY),
    )
    greedy, beam_4 = (tuple(hypothesis.ids for hypothesis in hypotheses) for hypotheses in searches)
    texts = (test.references, greedy, beam_4, calibration)
    return Oracle(manifest.identity, sources, limits, *texts)


def read_oracle(path: Path, bundle: Path) -> Oracle:
    """Read what `--write-oracle` wrote.

    Raises:
        UsageError: the file cannot be read, or is of another bundle.
    """
    oracle = from_mapping(Oracle, read_json(path), str(path))
    if oracle.identity != Manifest.load(bundle).identity:
        raise UsageError(f"{path}: is of another model than {bundle}: write it again")
    return oracle


def check_tokens(
    selected: Sequence[Contender], oracle: Oracle, bundle: Path, report: Report
) -> None:
    """Compare every contender's tokens of real sentences with the oracle's."""
    tokenizer = Manifest.load(bundle).open_tokenizer(bundle)
    inputs = TokenIds(oracle.sources, oracle.max_tokens)

    def bleu(translated: Sequence[tuple[int, ...]]) -> float:
        texts = [tokenizer.target.decode(ids) for ids in translated]
        return float(sacrebleu.corpus_bleu(texts, [list(oracle.references)]).score)

    for contender in selected:
        with contender.begin() as decode:
            for width, right in ((1, oracle.greedy), (4, oracle.beam_4)):
                translated = decode(inputs, width)
                equal = sum(map(operator.eq, translated, right)) / len(right)
                apart = abs(bleu(translated) - bleu(right))
                checked = TokenCheck(contender.name, contender.precision, width, equal, apart)
                report.tokens.append(checked)
                wrong = (
                    equal < _EQUAL[contender.precision]
                    or apart > _MOST_BLEU_APART[contender.precision]
                )
                if contender.is_ours and wrong:
                    report.failures.append(
                        f"{contender.name} {contender.precision} beam {width}: {equal:.1%} of the "
                        f"sentences equal, BLEU {apart:.2f} apart"
                    )


def measure_speed(
    selected: Sequence[Contender], batches: Sequence[int], gb_per_s: float | None, report: Report
) -> None:
    """Tokens per second of every contender, for every batch and width that it supports."""
    for contender in selected:
        if gb_per_s is not None:
            torch.cuda.empty_cache()  # free PyTorch's cached memory for the next contender
        before_mb = _used_mb()
        with contender.begin() as decode:
            for width in WIDTHS:
                for batch in batches:
                    if width > 1 and batch > 1 and not contender.is_ours:
                        continue  # its beam search takes one sentence at a time
                    speed = _speed(contender, decode, width, batch, gb_per_s, before_mb)
                    report.speed.append(speed)


def _speed(
    contender: Contender,
    decode: Decode,
    width: int,
    batch: int,
    gb_per_s: float | None,
    before_mb: float,
) -> Speed:
    inputs = random_sources(batch)
    decode(inputs, width)
    taken_s, tokens = [], 0
    for _ in range(_ROUNDS):
        begin = time.perf_counter()
        tokens = sum(len(ids) for ids in decode(inputs, width))
        taken_s.append(time.perf_counter() - begin)
    seconds = statistics.median(taken_s)
    limit_ms = memory_mb = None
    if gb_per_s is not None:
        limit_ms = step_bytes(batch, width, contender.precision) / gb_per_s / 1e6
        memory_mb = _used_mb() - before_mb
    return Speed(
        contender=contender.name,
        precision=contender.precision,
        beam=width,
        batch=batch,
        tokens_per_s=tokens / seconds,
        step_ms=1e3 * seconds / TARGET_TOKENS,
        limit_ms=limit_ms,
        gpu_memory_mb=memory_mb,
    )


def _used_mb() -> float:
    """GPU memory in use; 0 without a GPU."""
    if not torch.cuda.is_available():
        return 0.0
    free, total = torch.cuda.mem_get_info()
    return (total - free) / 1e6


def step_bytes(batch: int, width: int, precision: str) -> int:
    """Bytes that a base-size step reads at least: weights, and half-filled keys and values."""
    sizes = Dimensions(**{f.name: getattr(BASE, f.name) for f in fields(Dimensions)})
    of_token = 2 * sizes.decoder_layers * sizes.model_size
    cached = batch * of_token * (SOURCE_TOKENS + width * TARGET_TOKENS // 2)
    weight_bytes = _BYTES[precision]
    return weight_bytes * step_weights(sizes) + max(2, weight_bytes) * cached


def memory_gb_per_s() -> float:
    """Copy bandwidth of the GPU's memory, reads plus writes, in 1e9 bytes per second."""
    source = torch.ones(256 << 20, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(20):
        target.copy_(source)
    torch.cuda.synchronize()
    return 40 * source.nbytes / (time.perf_counter() - begin) / 1e9


def check(arguments: argparse.Namespace, report: Report) -> None:
    """Run all checks, and add their results one by one."""
    device, gb_per_s = arguments.device, None
    if device == "cuda":
        gb_per_s = memory_gb_per_s()
        report.environment["memory"] = f"{gb_per_s:.0f} GB/s"
        if "tests" in arguments.parts:
            run_tests(report)
    batches: Sequence[int] = SHORT_BATCHES if arguments.short else BATCHES
    left_out = arguments.leave_out
    if arguments.short:
        left_out = [*left_out, "PyTorch compiled"]
    if device == "cpu":
        batches = batches[:2]
    with tempfile.TemporaryDirectory() as scratch:
        bundle = Path(shutil.copytree(arguments.bundle, Path(scratch) / "shipped"))
        if "tokens" in arguments.parts:
            if arguments.oracle:
                oracle = read_oracle(arguments.oracle, bundle)
            else:
                oracle = make_oracle(bundle, arguments.data_dir, arguments.sentences)
            selected, report.missing = contenders(
                bundle, device, _ROWS, oracle.calibration, left_out
            )
            if arguments.short:  # PyTorch decodes prefixes, sentence by sentence in a beam search
                selected = [contender for contender in selected if contender.is_ours]
            check_tokens(selected, oracle, bundle, report)
        if "speed" in arguments.parts:
            base = write_random_bundle(Path(scratch))
            rows, texts = max(batches) * max(WIDTHS), random_sources(32).sources
            selected, report.missing = contenders(base, device, rows, texts, left_out)
            measure_speed(selected, batches, gb_per_s, report)


def main() -> int:
    """Print the tables; write them if they were measured on a GPU."""
    parser = argparse.ArgumentParser(prog="python -m lab.gpu.gpu_check", description=__doc__)
    text = parser.add_mutually_exclusive_group(required=True)
    text.add_argument("--data-dir", type=Path, help="holds tatoeba-en-de/test.en")
    text.add_argument("--oracle", type=Path, metavar="FILE", help="made by --write-oracle")
    parser.add_argument(
        "--write-oracle", type=Path, metavar="FILE", help="write the oracle's tokens, and stop"
    )
    parser.add_argument(
        "--short", action="store_true", help="fewer batches, and nothing that is compiled first"
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="default: all")
    parser.add_argument(
        "--out",
        type=Path,
        help="folder for the results (default: docs; with --device cpu, none)",
    )
    parser.add_argument("--bundle", type=Path, default=SHIPPED, help="default: the shipped model")
    parser.add_argument("--sentences", type=int, default=200, help="default: 200")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument(
        "--leave-out",
        action="append",
        choices=NAMES,
        default=[],
        help="do not measure this contender; can be repeated",
    )
    arguments = parser.parse_args()
    try:
        if arguments.write_oracle:
            if not arguments.data_dir:
                raise UsageError("--write-oracle: give --data-dir too")
            oracle = make_oracle(arguments.bundle, arguments.data_dir, arguments.sentences)
            arguments.write_oracle.write_text(json.dumps(asdict(oracle)), encoding="utf-8")
            return 0
        if arguments.device == "cuda" and (obstacle := gpu_obstacle()):
            raise UsageError(f"{obstacle}: this check needs one, with onnxruntime-gpu")
        report = Report(environment(arguments.device))
        try:
            check(arguments, report)
        except KeyboardInterrupt:
            report.failures.append("stopped before the end")
    except DragomanError as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return error.exit_code
    print(in_markdown(report))
    if out := arguments.out or (Path("docs") if arguments.device == "cuda" else None):
        out.mkdir(parents=True, exist_ok=True)
        results = json.dumps(asdict(report), indent=1) + "\n"
        (out / JSON_FILE).write_text(results, encoding="utf-8")
        (out / TABLE_FILE).write_text(in_markdown(report), encoding="utf-8")
    for failure in report.failures:
        print(f"FAIL  {failure}", file=sys.stderr)
    return int(bool(report.failures))


if __name__ == "__main__":
    sys.exit(main())

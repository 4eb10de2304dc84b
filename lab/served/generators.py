"""`dragoman load-test` compared with NVIDIA's perf_analyzer, on the same server, in turns.

Run from the project's folder on an otherwise idle machine:

    python -m lab.served.generators --texts FILE --perf-analyzer PATH

perf_analyzer is in the Linux wheel of tritonclient up to 2.50 (`tritonclient-2.50.0.data/data/bin`)
and needs libb64 and libcudart. The server gets one half of the processors and the generators the
other, as if they were on separate machines: otherwise, the CPU time that a generator takes from the
server would be a difference of its own. If the two agree, the 95 % interval of their difference
contains zero.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman_load_test.confidence import Estimate, difference
from dragoman_load_test.results import Run
from dragoman_load_test.texts import read_texts
from dragoman_serving.launch.launcher import TritonServer
from dragoman_serving.launch.serve_options import ServeOptions

from dragoman.kernel.errors import DragomanError, UsageError
from dragoman.kernel.processors import usable_processors
from lab.console import positive, progress
from lab.report import markdown_table

_REPOSITORY = Path("model_repository")
_CONCURRENCY = (1, 8, 32)
_WINDOWS = 3
"""Minimum number of windows that perf_analyzer measures and reports together."""
_LANGUAGE = "de"


@dataclass(frozen=True)
class Figures:
    """Measurements of a generator in one turn."""

    sentences_per_s: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True)
class Case:
    """A protocol and a number of clients."""

    protocol: str
    concurrency: int


Generator = Callable[[Case], Figures]


def halves() -> tuple[set[int], set[int]]:
    """The processors of the server, and those of the generators.

    Raises:
        UsageError: there are fewer than two.
    """
    all_of_them = sorted(usable_processors())
    if len(all_of_them) < 2:
        raise UsageError("this needs two processors")
    half = len(all_of_them) // 2
    return set(all_of_them[:half]), set(all_of_them[half:])


@contextlib.contextmanager
def on(processors: set[int]) -> Iterator[None]:
    """Run processes started in the context on these processors."""
    before = usable_processors()
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Generators:
    """Both generators, against one server."""

    def __init__(
        self,
        server: TritonServer,
        texts: Sequence[str],
        perf_analyzer: Path,
        window_s: int,
        scratch: Path,
    ) -> None:
        """Write the texts in the format of each generator."""
        self._urls = {"gRPC": server.grpc_url, "HTTP": server.http_url}
        self._perf_analyzer = perf_analyzer
        self._window_s = window_s
        self._scratch = scratch
        self._texts = scratch / "texts"
        self._texts.write_text("\n".join(texts), encoding="utf-8")
        target = {"content": [_LANGUAGE], "shape": [1]}
        steps = [
            {"text_input": {"content": [text], "shape": [1]}, "target_language": target}
            for text in texts
        ]
        self._steps = scratch / "steps.json"
        self._steps.write_text(json.dumps({"data": steps}), encoding="utf-8")

    def load_test(self, case: Case) -> Figures:
        """`dragoman load-test`."""
        file = self._scratch / "run.json"
        _run(
            [
                *(sys.executable, "-m", "dragoman", "--quiet", "load-test"),
                *("--url", self._urls[case.protocol], "--target-language", _LANGUAGE),
                *("--texts", str(self._texts), "--metrics-url", "none"),
                *("--concurrency", str(case.concurrency), "--warm-up-s", "1"),
                *("--window-s", str(self._window_s), "--windows", str(_WINDOWS)),
                *("--json", str(file), "--force"),
            ]
        )
        (point,) = Run.read(file).points
        if point.errors:
            raise DragomanError(f"dragoman load-test: {dict(point.examples)}")
        latency = point.latencies.summary()
        return Figures(point.sentences_per_s.mean, latency.p50_ms, latency.p99_ms)

    def perf_analyzer(self, case: Case) -> Figures:
        """NVIDIA's."""
        file = self._scratch / "perf_analyzer.csv"
        _run(
            [
                *(str(self._perf_analyzer), "-m", "translate", "-i", case.protocol.lower()),
                *("-u", self._urls[case.protocol].partition("://")[2]),
                *("--input-data", str(self._steps), "-f", str(file)),
                *("--concurrency-range", str(case.concurrency)),
                *("--measurement-interval", str(1000 * self._window_s)),
                # Three windows, whether or not they agree.
                *("--stability-percentage", "999", "--percentile", "99"),
            ]
        )
        with file.open(encoding="utf-8", newline="") as lines:
            (row,) = csv.DictReader(lines)
        p50_ms, p99_ms = (float(row[f"p{which} latency"]) / 1000 for which in (50, 99))
        return Figures(float(row["Inferences/Second"]), p50_ms, p99_ms)


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        last = done.stdout.strip().splitlines()[-1:]
        raise DragomanError(f"{command[0]} failed with code {done.returncode}: {''.join(last)}")


def table_line(case: Case, ours: Sequence[Figures], theirs: Sequence[Figures]) -> list[str]:
    """A row of the table: means, and whether their difference is beyond noise."""
    cells = [case.protocol, str(case.concurrency)]
    for name in ("sentences_per_s", "p50_ms"):
        mine, other = ([getattr(one, name) for one in found] for found in (ours, theirs))
        apart = difference(other, mine)
        cells += [_shown(mine), _shown(other), _agreement(apart, statistics.fmean(other))]
    for found in (ours, theirs):
        cells.append(f"{statistics.fmean(one.p99_ms for one in found):.1f}")
    return cells


def _shown(values: Sequence[float]) -> str:
    estimate = Estimate.of(values)
    return f"{estimate.mean:.1f} ± {estimate.half_width:.1f}"


def _agreement(apart: Estimate, of: float) -> str:
    within = apart.low <= 0 <= apart.high
    share = f"{apart.mean / of:+.1%} ± {apart.half_width / of:.1%}"
    return f"{share}, {'within' if within else 'beyond'} noise"


_HEAD = (
    *("protocol", "clients", "sentences/s, ours", "perf_analyzer's", "difference"),
    *("p50 ms, ours", "perf_analyzer's", "difference", "p99 ms, ours", "perf_analyzer's"),
)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m lab.served.generators")
    parser.add_argument("--texts", type=Path, required=True, help="one text per line; may be .gz")
    parser.add_argument("--perf-analyzer", type=Path, required=True, help="NVIDIA's program")
    parser.add_argument("--rounds", type=positive, default=5, help="default: 5")
    parser.add_argument("--window-s", type=positive, default=2, help="default: 2")
    arguments = parser.parse_args()
    try:
        texts = read_texts(arguments.texts)
        server_half, generator_half = halves()
    except (ValueError, UsageError) as error:
        parser.error(str(error))
    cases = [Case(protocol, n) for protocol in ("gRPC", "HTTP") for n in _CONCURRENCY]
    lines = []
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        advance = stack.enter_context(progress(len(cases) * arguments.rounds))
        with on(server_half):
            options = ServeOptions(_REPOSITORY, http_port=0, grpc_port=0, metrics_port=0)
            server = stack.enter_context(TritonServer(options))
        generators = Generators(
            server, texts, arguments.perf_analyzer.resolve(), arguments.window_s, scratch
        )
        for case in cases:
            ours, theirs = [], []
            for _ in range(arguments.rounds):
                with on(generator_half):
                    ours.append(generators.load_test(case))
                    theirs.append(generators.perf_analyzer(case))
                advance(f"{case.protocol}, {case.concurrency} clients")
            lines.append(table_line(case, ours, theirs))
            print(lines[-1], file=sys.stderr, flush=True)
    print(f"{len(server_half)} processors for the server, {len(generator_half)} for generators\n")
    print(markdown_table(_HEAD, lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())

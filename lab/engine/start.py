"""Time to start the engine and to load a model, and the memory that it takes.

Run from the project's folder on an otherwise idle machine:

    python -m lab.engine.start [--rounds N] [--json FILE]

It measures the shipped model, the base size and a model of OPUS-MT's size, the last two with random
weights. A fresh process loads the bundle and translates once; then it loads the same bundle again
beside the first. All checks of the bundle are included. Each start runs first without cached codes,
which it computes and caches, and then with them; the second load always finds them. The files are
in the page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dragoman.kernel.errors import DragomanError
from dragoman.kernel.replacement import KEPT_PREFIX
from lab.conditions import close
from lab.console import positive, progress
from lab.peers.base_model import write_random_bundle
from lab.peers.imported_model import Sizes, write_random_model
from lab.report import markdown_table

SHIPPED = Path("model_repository/translate/1/bundle")
_PROJECT = Path(__file__).parents[2]
"""Working directory of the workers."""
_MIB = 1 << 20


@dataclass(frozen=True)
class Start:
    """Result of one fresh process.

    Attributes:
        first_s: from its start to its first translation.
        load_s: to load the same bundle again in the same process, until its engine accepts
        requests.
        peak_bytes: peak resident memory up to the first translation.
    """

    first_s: float
    load_s: float
    peak_bytes: int
    layout: str


@dataclass(frozen=True)
class StartCase:
    """The starts of a model, with or without cached codes."""

    model: str
    kept: bool
    starts: tuple[Start, ...]

    def cells(self) -> tuple[str, ...]:
        """A row of the table: medians."""
        first_s, load_s, peak_bytes = (
            statistics.median(getattr(start, name) for start in self.starts)
            for name in ("first_s", "load_s", "peak_bytes")
        )
        codes = "kept" if self.kept else "made"
        return self.model, codes, f"{first_s:.2f}", f"{load_s:.2f}", f"{peak_bytes / _MIB:.0f}"


HEADER = ("model", "codes", "first translation s", "load s", "peak resident MiB")


def start(bundle: Path, cache: Path) -> Start:
    """Start a process, and wait for its first translation and the second load.

    Args:
        bundle: the bundle to load.
        cache: the user's cache folder, for the process.

    Raises:
        DragomanError: the process failed.
    """
    begin_s = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "lab.engine.start_worker", str(bundle)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=_PROJECT,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        first_s = time.perf_counter() - begin_s
        second = process.stdout.readline()
    if process.returncode:
        raise DragomanError("the engine's process failed; see its output above")
    return Start(first_s=first_s, **json.loads(first), **json.loads(second))


def measure(name: str, bundle: Path, rounds: int) -> tuple[StartCase, StartCase]:
    """Start a bundle without cached codes, and with them.

    Raises:
        DragomanError: a process failed.
    """
    made, kept = [], []
    cache = bundle.parent / "cache"
    start(bundle, cache)  # fills the page cache
    for _ in range(rounds):
        for path in bundle.glob(f"{KEPT_PREFIX}*"):
            path.unlink()
        made.append(start(bundle, cache))
        kept.append(start(bundle, cache))
    return StartCase(name, False, tuple(made)), StartCase(name, True, tuple(kept))


def _bundles(folder: Path, small: bool) -> Iterator[tuple[str, Path]]:
    """The models; each is written when it is needed."""
    shipped = folder / "shipped" / "bundle"
    shutil.copytree(SHIPPED, shipped, ignore=shutil.ignore_patterns(f"{KEPT_PREFIX}*"))
    yield "shipped", shipped
    if small:
        return
    (folder / "base").mkdir()
    yield "base", write_random_bundle(folder / "base")
    yield "OPUS-sized", write_imported_bundle(folder / "opus")


def write_imported_bundle(folder: Path) -> Path:
    """Write a bundle of OPUS-MT's size with random weights."""
    from dragoman_export.bundle import export_bundle
    from dragoman_training.marian.importing import import_marian

    folder.mkdir()
    write_random_model(folder / "opus-mt-en-de", Sizes())
    import_marian(folder / "opus-mt-en-de", folder / "checkpoint")
    export_bundle(folder / "checkpoint", folder / "bundle")
    return folder / "bundle"


def main(words: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Args:
        words: the command line without the module's name; None: `sys.argv`.

    Returns:
        0 done, 1 something failed, 2 usage.
    """
    words = sys.argv[1:] if words is None else words
    parser = argparse.ArgumentParser(
        prog="python -m lab.engine.start",
        description="Time to start the engine and to load a model.",
    )
    parser.add_argument("--rounds", type=positive, default=5, help="default: 5")
    parser.add_argument("--small", action="store_true", help="only the shipped model")
    parser.add_argument("--json", type=Path, help="file for all results")
    arguments = parser.parse_args(words)
    load_1min = os.getloadavg()[0]
    cases: list[StartCase] = []
    try:
        with tempfile.TemporaryDirectory() as folder, progress(1 if arguments.small else 3) as done:
            for name, bundle in _bundles(Path(folder), arguments.small):
                cases += measure(name, bundle, arguments.rounds)
                done(name)
    except DragomanError as error:
        print(f"lab.engine.start: {error}", file=sys.stderr)
        return error.exit_code
    print(markdown_table(HEADER, [case.cells() for case in cases]))
    values = {"cases": [asdict(case) for case in cases]}
    close("lab.engine.start", words, load_1min, values, arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Time to start the engine and to load a model, and the memory that it takes.

It measures the shipped model, the base size, a model of OPUS-MT's size and one of Firefox's tiny
ones, all but the first with random weights. A fresh process loads the bundle and translates once;
then it loads the same bundle again beside the first, like the other direction of a language pair.
All checks of the bundle are included. Each start runs first without cached codes, which it computes
and caches, and then with them; the second load always finds them. The files are in the page cache.
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
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from dragoman.kernel.errors import DragomanError
from dragoman.kernel.replacement import KEPT_PREFIX
from lab.measurement import (
    PROJECT,
    SHIPPED,
    Results,
    alternate,
    number,
    option,
    program,
    progress,
)
from lab.peers.firefox import MODELS, Words, write_models
from lab.peers.models.base_model import write_random_bundle
from lab.peers.models.imported_model import Sizes, write_random_model
from lab.report import markdown_table

_MIB = 1 << 20


@dataclass(frozen=True)
class Start:
    """Result of one fresh process.

    Attributes:
        first_s: from its start to its first translation.
        load_s: to load the same bundle again in the same process, until its engine accepts
        requests.
        peak_bytes: peak resident memory up to the first translation.
        added_bytes: resident memory that the second one adds, after a translation by each.
    """

    first_s: float
    load_s: float
    peak_bytes: int
    added_bytes: int
    layout: str


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
        cwd=PROJECT,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        first_s = time.perf_counter() - begin_s
        second = process.stdout.readline()
    if process.returncode:
        raise DragomanError("the engine's process failed; see its output above")
    return Start(first_s=first_s, **json.loads(first), **json.loads(second))


def measure(bundle: Path, rounds: int) -> dict[str, list[Start]]:
    """Start a bundle without cached codes (`made`), and with them (`kept`).

    Raises:
        DragomanError: a process failed.
    """
    with_cache = partial(start, bundle, bundle.parent / "cache")

    def without_codes() -> Start:
        for path in bundle.glob(f"{KEPT_PREFIX}*"):
            path.unlink()
        return with_cache()

    with_cache()  # fills the page cache
    return alternate({"made": without_codes, "kept": with_cache}, rounds)


def row(model: str, codes: str, starts: list[Start]) -> list[str]:
    """A row of the table: medians."""
    first_s, load_s, *sizes = (
        statistics.median(getattr(sample, name) for sample in starts)
        for name in ("first_s", "load_s", "peak_bytes", "added_bytes")
    )
    seconds = [f"{first_s:.2f}", f"{load_s:.2f}"]
    return [model, codes, *seconds, *(f"{size / _MIB:.0f}" for size in sizes)]


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
    student = MODELS["tiny"]
    write_models(folder / "tiny", student, Words(student.entries, even=False))
    yield "Firefox's tiny", folder / "tiny" / "bundle"


def write_imported_bundle(folder: Path) -> Path:
    """Write a bundle of OPUS-MT's size with random weights."""
    from dragoman_export.bundle import export_bundle
    from dragoman_training.marian.importing import import_marian

    folder.mkdir()
    write_random_model(folder / "opus-mt-en-de", Sizes())
    import_marian(folder / "opus-mt-en-de", folder / "checkpoint")
    export_bundle(folder / "checkpoint", folder / "bundle")
    return folder / "bundle"


@program(
    number("--rounds", 5), option("--small", action="store_true", help="only the shipped model")
)
def main(arguments: argparse.Namespace) -> Results:
    """Measure and print."""
    rows, results = [], []
    with tempfile.TemporaryDirectory() as folder, progress(1 if arguments.small else 4) as done:
        for model, bundle in _bundles(Path(folder), arguments.small):
            for codes, starts in measure(bundle, arguments.rounds).items():
                rows.append(row(model, codes, starts))
                results.append(
                    {
                        "model": model,
                        "codes": codes,
                        "starts": [asdict(sample) for sample in starts],
                    }
                )
            done(model)
    header = ("model", "codes", "first translation s", "load s", "peak resident MiB", "added MiB")
    print(markdown_table(header, rows))
    return {"cases": results}


if __name__ == "__main__":
    sys.exit(main())

"""The hit rate of the gateway's cache by its size, on real text.

Run from the project's folder, in a clone with its history:

    python -m lab.gateway.cache --data-dir CORPORA

Two streams of text are segmented and looked up as in the gateway. No model runs: the source text
itself is cached as its translation, since both have about the same length.

- pages: the pages in `docs`, each translated again as a whole after every commit that changed it,
  as for a site that keeps its pages translated;
- dialogue: the messages of `dialog-en-de`, in order, each separately.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dragoman_client import Translation
from dragoman_gateway.core.cache import Cache, CacheKeys
from dragoman_gateway.core.segmentation import split

from lab.conditions import close
from lab.report import markdown_table, percent

_MODULE = "lab.gateway.cache"
_KIB = 1024
_SIZES_KIB = (64, 256, 1024, 4096, 16_384, 65_536)
_DIRECTION = ("en", "de")


def main(words: Sequence[str] | None = None) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog=f"python -m {_MODULE}", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--most", type=int, help="commits and messages; default: all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results there")
    words = sys.argv[1:] if words is None else words
    arguments, load_1min = parser.parse_args(words), os.getloadavg()[0]
    streams = {
        "pages": list(pages(Path.cwd(), arguments.most)),
        "dialogue": list(messages(arguments.data_dir, arguments.most)),
    }
    rows, results = [], {}
    for name, texts in streams.items():
        units = [list(units_of(text)) for text in texts]
        every = [unit for of_text in units for unit in of_text]
        rates = [rate(every, size_kib * _KIB) for size_kib in _SIZES_KIB]
        results[name] = dict(zip(map(str, _SIZES_KIB), rates, strict=True))
        rows.append([name, f"{len(texts):,}", f"{len(every):,}", *map(percent, rates)])
    sizes = [f"{size_kib / _KIB:g} MiB" for size_kib in _SIZES_KIB]
    print(markdown_table(["stream", "texts", "units", *sizes], rows))
    close(_MODULE, words, load_1min, {"hit_rates_by_kib": results}, arguments.json)


def units_of(text: str) -> Iterator[str]:
    """The units of a text that the gateway looks up."""
    segmented = split(text, _DIRECTION[0], keeps_placeholders=False)
    return (unit for unit in segmented.units if unit.strip())


def rate(units: Iterable[str], most_bytes: int) -> float:
    """Share of the characters that are cache hits, with a cache of this size."""
    cache, keys = Cache(most_bytes), CacheKeys(b"", {})
    found = characters = 0
    for unit in units:
        key = keys.key(unit, _DIRECTION, {})
        if cache.get(key) is None:
            cache.put(key, Translation(unit, 1, "stop"))
        else:
            found += len(unit)
        characters += len(unit)
    return found / characters if characters else 0.0


def pages(repository: Path, most: int | None) -> Iterator[str]:
    """Every version of every page in `docs`, oldest first."""
    commits = _git(repository, "log", "--reverse", "--no-merges", "--format=%H", "--", "docs")
    for commit in commits.split()[-most if most else None :]:
        changed = ("diff-tree", "--no-commit-id", "--root", "-r", "--name-only", "--diff-filter=AM")
        for path in _git(repository, *changed, commit, "--", "docs").splitlines():
            if path.endswith(".md"):
                yield _git(repository, "show", f"{commit}:{path}")


def messages(data_dir: Path, most: int | None) -> Iterator[str]:
    """The messages of the dialogues, in order."""
    with gzip.open(data_dir / "dialog-en-de" / "train.en.gz", "rt", encoding="utf-8") as file:
        lines = file.read().splitlines()
    yield from lines[:most]


def _git(repository: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(repository), *words],
        capture_output=True,
        check=True,
    )
    return done.stdout.decode("utf-8", "replace")


if __name__ == "__main__":
    main()

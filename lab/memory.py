"""Lookups in a translation memory: their times, what they find, and the size of the file.

    python -m lab.memory --data-dir CORPORA --segments 1000000

The memory is filled with the English lines of the corpora. If there are too few, more are made of
the first half of one line and the second half of another one. Looked up are lines of the memory,
the same lines with one word of five replaced, with half of the words replaced, and other lines.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from dragoman_client.files.compressed_files import opened
from dragoman_documents.memory.memory_store import Memory
from dragoman_documents.memory.pairs import Pair

from dragoman.kernel.errors import UsageError
from lab.measurement import DATA_DIR, Results, number, option, program
from lab.report import markdown_table

_SEED = 1
_MOST_CHARACTERS = 1000
_SHARES = {"equal": 0.0, "one word of five replaced": 0.2, "half of the words replaced": 0.5}


def _lines(folder: Path) -> list[str]:
    """Returns the different English lines of all training corpora."""
    lines: dict[str, None] = {}
    for file in sorted(folder.glob("*-en-*/train.en*")):
        with opened(file) as content:
            for line in content:
                text = " ".join(line.decode("utf-8", "replace").split())
                if 3 <= len(text) <= _MOST_CHARACTERS:
                    lines[text] = None
    return list(lines)


def _segments(lines: Sequence[str], most: int, chance: random.Random) -> Iterator[str]:
    """Yields the lines, then lines made of two."""
    yield from lines[:most]
    for _ in range(most - len(lines)):
        first, second = (chance.choice(lines).split() for _ in range(2))
        yield " ".join(first[: (len(first) + 1) // 2] + second[len(second) // 2 :])


def _changed(text: str, share: float, words: Sequence[str], chance: random.Random) -> str:
    """Returns a text with a share of its words replaced, at least one unless the share is 0."""
    changed = text.split()
    count = max(1, round(share * len(changed))) if share else 0
    for index in chance.sample(range(len(changed)), count):
        changed[index] = chance.choice(words)
    return " ".join(changed)


@program(
    DATA_DIR,
    number("--segments", 1_000_000),
    number("--lookups", 1000),
    option("--memory", type=Path, metavar="FILE", help="keep the memory, or use it again"),
)
def main(arguments: argparse.Namespace) -> Results:
    """Measure and print."""
    chance = random.Random(_SEED)  # noqa: S311 - for reproducible texts
    lines = _lines(arguments.data_dir)
    chance.shuffle(lines)
    held_out, lines = lines[: arguments.lookups], lines[arguments.lookups :]
    if len(lines) < arguments.lookups:
        raise UsageError(f"{arguments.data_dir}: has too few files named *-en-*/train.en*")
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.memory or Path(folder) / "memory.sqlite"
        begin_s = time.process_time()
        if not path.exists():
            with Memory.create(path, ("en", "de")) as memory:
                segments = _segments(lines, arguments.segments, chance)
                memory.add(Pair(text, f"de {text}") for text in segments)
        import_s = time.process_time() - begin_s
        with Memory.open(path) as memory:
            size, number_of_segments = path.stat().st_size, len(memory)
            words = " ".join(lines[:10_000]).split()
            originals = chance.sample(lines[: arguments.segments], arguments.lookups)
            rows, results = [], {}
            for name, texts, kept in [
                *(
                    (name, [_changed(text, share, words, chance) for text in originals], originals)
                    for name, share in _SHARES.items()
                ),
                ("other lines", held_out, None),
            ]:
                taken_ms, found = _looked_up(memory, texts, kept)
                median, late = np.percentile(taken_ms, (50, 99))
                rows.append(
                    [name, f"{median:.2f}", f"{late:.2f}", f"{max(taken_ms):.2f}", str(found)]
                )
                results[name] = {"ms": taken_ms, "found": found}
    print(
        f"{number_of_segments:,} segments, {size / 2**20:,.0f} MiB; import: {import_s:.0f} s of "
        f"processor time; lookups: {arguments.lookups:,} of each kind\n"
    )
    print(markdown_table(["text", "median ms", "p99 ms", "longest ms", "found"], rows))
    memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"\nPeak memory of this process: {memory_mib:.0f} MiB")
    return {"segments": number_of_segments, "bytes": size, "import_s": import_s, "kinds": results}


def _looked_up(
    memory: Memory, texts: Sequence[str], originals: Sequence[str] | None
) -> tuple[list[float], int]:
    """Returns the time of each lookup, and how many found the original, or anything at all."""
    taken_ms, found = [], 0
    for index, text in enumerate(texts):
        begin_s = time.perf_counter()
        matches = memory.similar(text)
        taken_ms.append(1000 * (time.perf_counter() - begin_s))
        sources = [match.pair.source for match in matches]
        found += bool(sources) if originals is None else originals[index] in sources
    return taken_ms, found


if __name__ == "__main__":
    sys.exit(main())

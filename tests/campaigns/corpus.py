"""A corpus with rows that fail, on a Ray cluster on this machine whose parts are killed.

Run from the project's folder:

    python -m tests.campaigns.corpus --texts english.txt [--rows 200000] [--json FILE]

One process without Ray translates the corpus first, for comparison. Then a head and two nodes of
one core translate it, on the local disk and in SeaweedFS. When a fifth, two fifths and three fifths
of the chunks are done, an actor, a node and the command are killed; the command is then run again.
Each row must be in the output once, with the same text. Processor time is that of all processes,
including Ray's and those that were killed, so other work on the machine affects it little.

With all rows it takes about an hour, so it is not a part of `python -m tests.campaigns`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
from dragoman_load_test.texts import read_texts
from pyarrow import dataset, fs, parquet

from tests.campaigns.background import Background
from tests.campaigns.outcome import Bound, Outcome, table
from tests.conftest import REPOSITORY
from tests.object_store import CREDENTIALS, object_store

_BUNDLE = REPOSITORY / "model_repository/translate/1/bundle"
_ROWS = 200_000
_CHUNK_ROWS = 1000
_FILES = 4
_POISON = "poison " * 20_000
"""More characters than a text may have."""
_POISON_EVERY = 5000
_LOOK_S = 0.25
_PARENT, _USER, _SYSTEM, _START = 1, 11, 12, 19
"""Indices of fields of `/proc/PID/stat` after the name."""
_LEAST_SHARE = 0.8
"""Of the speed without Ray, by processor time."""
_STORE_BYTES = 200_000_000


@dataclass(frozen=True)
class Place:
    """A folder on the disk or in an object store."""

    files: fs.FileSystem
    folder: str
    uri: Callable[[str], str]
    """Makes the word of a command line from a subfolder."""

    def write(self, rows: pyarrow.Table) -> None:
        """Write the corpus into several files in `in`."""
        self.files.create_dir(f"{self.folder}/in", recursive=True)
        each = math.ceil(len(rows) / _FILES)
        for number in range(_FILES):
            part = rows[number * each : (number + 1) * each]
            parquet.write_table(part, f"{self.folder}/in/{number}.parquet", filesystem=self.files)

    def parts(self, output: str) -> list[str]:
        """The finished chunks in a folder of outputs, and the files in which they were joined."""
        below = fs.FileSelector(f"{self.folder}/{output}", recursive=True, allow_not_found=True)
        infos = self.files.get_file_info(below)
        return sorted(
            info.path
            for info in infos
            if info.is_file and info.extension == "parquet" and info.base_name[0].isdigit()
        )

    def read(self, output: str) -> pyarrow.Table:
        """All rows of a folder of outputs, in order."""
        return dataset.dataset(
            self.parts(output), filesystem=self.files, format="parquet"
        ).to_table()


class ProcessorTime(Background):
    """Adds up the processor time of new descendants of this process, also after their end.

    Source: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
    """

    def __init__(self) -> None:
        """Start at zero."""
        super().__init__()
        self._others = _family(_stat(), {os.getpid()})
        """Processes that were there before, such as the object store."""
        self._used_ticks: dict[tuple[int, int], int] = {}
        """By process and the time of its start."""

    @property
    def seconds(self) -> float:
        """Processor time so far; of a process that has ended, up to the last look."""
        return sum(self._used_ticks.values()) / os.sysconf("SC_CLK_TCK")

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_S):
            self._look()

    def _look(self) -> None:
        fields = _stat()
        # A process whose parent has died still counts.
        roots = {os.getpid(), *(pid for pid, _ in self._used_ticks)}
        for pid in _family(fields, roots) - self._others:
            of = fields[pid]
            self._used_ticks[pid, int(of[_START])] = int(of[_USER]) + int(of[_SYSTEM])


def _stat() -> dict[int, list[str]]:
    """The fields of each process after its name."""
    fields = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = path.read_text(encoding="utf-8", errors="replace")
            fields[int(path.parent.name)] = text.rpartition(")")[2].split()
    return fields


def _family(fields: Mapping[int, Sequence[str]], roots: set[int]) -> set[int]:
    """The living processes among some and their descendants."""
    pids = set(roots)
    while more := {pid for pid, of in fields.items() if int(of[_PARENT]) in pids} - pids:
        pids |= more
    return pids & fields.keys()


class Run:
    """Runs `dragoman batch` for a place, on Ray or without it."""

    def __init__(self, place: Place, file_chunks: int, bundle: Path) -> None:
        """Prepare."""
        self._place, self._file_chunks, self._bundle = place, file_chunks, bundle
        self.report: dict[str, Any] = {}
        """Of the last command."""

    def whole(self) -> None:
        """Translate with one process."""
        self._finish(self._command("whole"))

    def on_ray(self) -> None:
        """Translate on a cluster, parts of which are killed."""
        with _ray() as cluster:
            nodes = [self._node(cluster) for _ in range(2)]
            words = self._command("ray", "--ray", cluster.address)
            driver = subprocess.Popen(words, stdout=subprocess.DEVNULL)
            self._wait(driver, 0.2)
            os.kill(_actors()[0], signal.SIGKILL)
            self._wait(driver, 0.4)
            cluster.remove_node(nodes.pop(), allow_graceful=False)
            self._node(cluster)
            self._wait(driver, 0.6)
            driver.kill()
            driver.wait()
            self._finish(words)

    def _finish(self, words: Sequence[str]) -> None:
        done = subprocess.run(words, check=True, stdout=subprocess.PIPE)
        self.report = json.loads(done.stdout)

    def _command(self, output: str, *more: str) -> list[str]:
        return [
            *(sys.executable, "-m", "dragoman", "--quiet", "batch", "--json", "--workers", "1"),
            *("--input", self._place.uri("in"), "--output", self._place.uri(output)),
            *("--bundle", str(self._bundle), "--target-language", "de"),
            *("--chunk-rows", str(_CHUNK_ROWS), *more),
        ]

    def _node(self, cluster: Any) -> Any:
        return cluster.add_node(num_cpus=1, object_store_memory=_STORE_BYTES)

    def _wait(self, driver: subprocess.Popen[bytes], share: float) -> None:
        """Wait until a share of the chunks is done."""
        while self._done < share * _FILES * self._file_chunks:
            if driver.poll() is not None:
                raise OSError(f"the command ended with {driver.returncode}")
            time.sleep(_LOOK_S)

    @property
    def _done(self) -> int:
        """Number of finished chunks; on the disk, those of a finished file are joined."""
        parts = self._place.parts("ray")
        return sum(1 if ".parts/" in path else self._file_chunks for path in parts)


@contextlib.contextmanager
def _ray() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    try:
        yield cluster
    finally:
        cluster.shutdown()


def _actors() -> list[int]:
    """Processes of actors that translate."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().startswith(b"ray::Map"):
                pids.append(int(path.parent.name))
    return pids


def corpus(texts: Sequence[str], rows: int) -> pyarrow.Table:
    """Rows with ids; texts are repeated, and some cannot be translated."""
    chosen = [
        _POISON if row % _POISON_EVERY == _POISON_EVERY // 2 else texts[row % len(texts)]
        for row in range(rows)
    ]
    return pyarrow.table({"id": [f"id-{row}" for row in range(rows)], "text": chosen})


def judge(outcome: Outcome, where: str, output: pyarrow.Table, whole: pyarrow.Table) -> None:
    """Compare rows with those of one process."""
    before, after = whole.column("id").to_pylist(), output.column("id").to_pylist()
    by_id = {row["id"]: row for row in whole.to_pylist()}
    outcome.lost += len(set(before) - set(after))
    outcome.wrong += sum(row != by_id.get(row["id"]) for row in output.to_pylist())
    outcome.bounds.append(Bound(f"{where}: rows more than once", len(after) - len({*after}), 0))
    errors = sum(error is not None for error in output.column("error").to_pylist())
    outcome.figures[f"{where}: rows with an error"] = errors


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it and print the results; returns 0 if every bound holds, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.corpus", description=__doc__)
    parser.add_argument("--texts", type=Path, required=True, help="one text per line; may be .gz")
    parser.add_argument("--rows", type=int, default=_ROWS, help=f"default: {_ROWS}")
    parser.add_argument("--bundle", type=Path, default=_BUNDLE, help="default: the shipped model")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    given = parser.parse_args(arguments)
    rows = corpus(read_texts(given.texts), given.rows)
    file_chunks = math.ceil(math.ceil(given.rows / _FILES) / _CHUNK_ROWS)
    outcome, start_s = Outcome("corpus", requests=given.rows), time.monotonic()
    os.environ.update(CREDENTIALS)
    with tempfile.TemporaryDirectory() as folder, object_store(Path(folder)) as endpoint:
        disk = Place(fs.LocalFileSystem(), f"{folder}/disk", lambda name: f"{folder}/disk/{name}")
        query = f"?endpoint_override={endpoint}&scheme=http"
        s3 = fs.S3FileSystem(endpoint_override=endpoint, scheme="http", allow_bucket_creation=True)
        store = Place(s3, "corpus", lambda name: f"s3://corpus/{name}{query}")
        disk.write(rows)
        store.write(rows)
        alone_s = _timed(Run(disk, file_chunks, given.bundle).whole)
        outcome.figures["one process: rows per processor second"] = given.rows / alone_s
        whole = disk.read("whole")
        for where, place in (("disk", disk), ("S3", store)):
            print(f"{where} ...", file=sys.stderr, flush=True)
            run = Run(place, file_chunks, given.bundle)
            used_s = _timed(run.on_ray)
            outcome.figures[f"{where}: rows per processor second"] = given.rows / used_s
            share = Bound(f"{where}: share", alone_s / used_s, _LEAST_SHARE, at_least=True)
            outcome.figures[f"{where}: share of the speed without Ray"] = share.value
            if given.rows >= _ROWS:  # Ray's start and end cost as much as thousands of rows
                outcome.bounds.append(share)
            earlier = run.report["earlier_rows"]
            outcome.figures[f"{where}: rows done before the second run"] = earlier
            judge(outcome, where, place.read("ray"), whole)
    outcome.took_s = time.monotonic() - start_s
    print(table([outcome]))
    if given.json is not None:
        given.json.write_text(json.dumps(outcome.as_json(), indent=2) + "\n", encoding="utf-8")
    return 1 if outcome.broken() else 0


def _timed(work: Callable[[], object]) -> float:
    """Processor seconds of everything that the work starts."""
    with ProcessorTime() as used:
        before_s = used.seconds
        work()
    return used.seconds - before_s


if __name__ == "__main__":
    sys.exit(main())

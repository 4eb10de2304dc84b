"""`dragoman batch` in shards that a scheduler kills and runs again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.toy import reverse_pairs

SHARDS = 3
WAIT_S = 120


def command(bundle: Path, folder: Path, output: str, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "dragoman", "--quiet", "batch", "--json", "--workers", "1"),
        *("--input", str(folder / "in"), "--output", str(folder / output), "--bundle", str(bundle)),
        *("--target-language", "de", "--chunk-rows", "100", *more),
    ]


def write_input(folder: Path, rows: int) -> None:
    """Lines, of which some are empty and some cannot be translated."""
    lines = [source.encode() for source, _ in reverse_pairs(rows, seed=3)]
    lines[0] = lines[rows // 2] = b""
    lines[rows // 3], lines[-1] = b"red " * 30_000, b"\xff"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"\n".join(lines))


def wait_for_parts(folder: Path, number: int, processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait until a folder has this many parts, or a process has ended."""
    while all(process.poll() is None for process in processes) and count_parts(folder) < number:
        time.sleep(0.002)


def count_parts(folder: Path) -> int:
    return len(list(folder.glob("a.txt.parts/0*")))


def results(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("a.txt*") if path.is_file()}


@pytest.mark.thorough
def test_killed_shards_give_the_same_result_as_one_process(
    random_bundle: Path, tmp_path: Path
) -> None:
    rows = 4000
    write_input(tmp_path / "in", rows)
    whole = subprocess.run(
        command(random_bundle, tmp_path, "whole"), capture_output=True, check=True
    )
    assert json.loads(whole.stdout)["done"]["rows"] == rows

    shards = tmp_path / "shards"
    for is_last in (False, False, True):
        before = count_parts(shards)
        running = [
            subprocess.Popen(
                command(random_bundle, tmp_path, "shards", "--shard", f"{number}/{SHARDS}"),
                stdout=subprocess.DEVNULL,
            )
            for number in range(1, SHARDS + 1)
        ]
        if not is_last:
            wait_for_parts(shards, before + SHARDS, running)
            for process in running:
                process.kill()
        # The killed ones had not finished.
        codes = {process.wait(WAIT_S) for process in running}
        assert codes == ({0} if is_last else {-signal.SIGKILL})
    sharded = results(shards)
    assert sharded == results(tmp_path / "whole")
    assert sharded["a.txt"].count(b"\n") == rows
    errors = [json.loads(line)["row"] for line in sharded["a.txt.errors.jsonl"].splitlines()]
    assert errors == [rows // 3 + 1, rows]

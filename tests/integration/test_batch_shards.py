"""`dragoman batch` in shards that a scheduler kills and runs again."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.toy import reverse_pairs

SHARDS = 3
KILLS = 6


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


def results(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("a.txt*") if path.is_file()}


@pytest.mark.thorough
def test_shards_that_are_killed_come_to_what_one_process_does(
    random_bundle: Path, tmp_path: Path
) -> None:
    rows = 4000
    write_input(tmp_path / "in", rows)
    whole = subprocess.run(
        command(random_bundle, tmp_path, "whole"), capture_output=True, check=True
    )
    assert json.loads(whole.stdout)["done"]["rows"] == rows

    generator, kills = random.Random(0), 0
    left = {f"{number}/{SHARDS}" for number in range(1, SHARDS + 1)}
    while left:
        running = {
            shard: subprocess.Popen(
                command(random_bundle, tmp_path, "shards", "--shard", shard),
                stdout=subprocess.DEVNULL,
            )
            for shard in left
        }
        for shard, process in running.items():
            try:
                kills_it = kills < KILLS
                code = process.wait(generator.uniform(1.0, 4.0) if kills_it else 120)
                assert code == 0
                left.discard(shard)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
    assert kills == KILLS
    found = results(tmp_path / "shards")
    assert found == results(tmp_path / "whole")
    assert found["a.txt"].count(b"\n") == rows
    errors = [json.loads(line)["row"] for line in found["a.txt.errors.jsonl"].splitlines()]
    assert errors == [rows // 3 + 1, rows]

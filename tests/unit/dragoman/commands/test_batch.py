"""`dragoman batch` with a test server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from dragoman_client import InvalidRequest, Translation
from dragoman_client.testing import FakeServer, translated
from pyarrow import parquet

from dragoman.cli import main

LINES = [f"line {number}" if number % 7 else "" for number in range(95)]


def translate(text: str) -> Translation:
    if text == "poison":
        raise InvalidRequest("the text is refused")
    return Translation(translated(text), len(text), "stop", confidence=-0.5)


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with FakeServer(translate) as fake:
        yield fake


@pytest.fixture
def batch(server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command, and returns its report, or the message if it fails."""
    (tmp_path / "in/sub").mkdir(parents=True)
    (tmp_path / "in/a.txt").write_text("".join(f"{line}\n" for line in LINES))
    (tmp_path / "in/sub/b.txt").write_text("one\npoison\ntwo")
    (tmp_path / "in/_not.txt").write_text("hidden")

    def run(*words: str, code: int = 0) -> Any:
        command = ["--quiet", "batch", "--url", server.grpc_url, "--output", str(tmp_path / "out")]
        assert main([*command, "--chunk-rows", "10", "--json", *words]) == code
        captured = capsys.readouterr()
        return captured.err if code else json.loads(captured.out)

    return run


def wanted(lines: list[str]) -> str:
    return "".join(f"{translated(line) if line else ''}\n" for line in lines)


def files(folder: Path) -> set[str]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)) for path in paths}


def test_a_folder_is_translated_once(batch: Any, tmp_path: Path, server: FakeServer) -> None:
    report = batch("--input", str(tmp_path / "in"))
    assert (report["done"]["rows"], report["done"]["errors"]) == (98, 1)
    assert (report["earlier_rows"], report["left_rows"]) == (0, 0)
    with_text = sum(map(bool, LINES)) + 2
    assert report["done"]["confidences"] == [*[0] * 6, with_text, *[0] * 3]
    out = tmp_path / "out"
    assert (out / "a.txt").read_text() == wanted(LINES)
    assert (out / "sub/b.txt").read_text() == "<ONE>\n\n<TWO>\n"
    errors = [
        json.loads(line) for line in (out / "sub/b.txt.errors.jsonl").read_text().splitlines()
    ]
    assert errors == [{"row": 2, "error": "the text is refused"}]
    indexes = {"a.txt.parts/_index.json", "sub/b.txt.parts/_index.json"}
    texts = {"a.txt", "sub/b.txt", "sub/b.txt.errors.jsonl"}
    assert files(out) == {"_batch.json", *indexes, *texts}

    before = len(server.requests)
    again = batch("--input", str(tmp_path / "in"))
    assert (again["done"]["rows"], again["earlier_rows"], again["left_rows"]) == (0, 98, 0)
    assert [request.model for request in server.requests[before:]] == ["info"]


def test_shards_and_a_last_run_translate_every_chunk_once(batch: Any, tmp_path: Path) -> None:
    words = ("--input", str(tmp_path / "in/a.txt"))
    rows = []
    for shard in ("1/3", "3/3"):
        rows.append(batch(*words, "--shard", shard)["done"]["rows"])
        assert not (tmp_path / "out/a.txt").exists()
    parts = tmp_path / "out/a.txt.parts"
    assert {path.name for path in parts.glob("0*")} == {
        f"{number:08d}.txt" for number in (0, 2, 3, 5, 6, 8, 9)
    }
    (parts / "00000003.txt").unlink()
    report = batch(*words)
    assert (rows, report["done"]["rows"]) == ([35, 30], 40)
    assert report["earlier_rows"] == 55
    assert (tmp_path / "out/a.txt").read_text() == wanted(LINES)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--target-language", "de"], "holds a job with other options"),
        (["--chunk-rows", "11"], "holds a job with other chunk_rows"),
        (["--format", "tsv"], "holds a job with other name"),
    ],
)
def test_another_job_is_not_mixed_with_the_first(
    batch: Any, tmp_path: Path, change: list[str], message: str
) -> None:
    words = ("--input", str(tmp_path / "in/a.txt"))
    batch(*words, "--shard", "1/2")
    assert message in batch(*words, *change, code=2)


def test_a_file_that_changed_is_refused(batch: Any, tmp_path: Path) -> None:
    source = tmp_path / "in/a.txt"
    batch("--input", str(source), "--shard", "1/2")
    content = source.read_text()
    source.write_text(content)  # another modification time, the same content
    batch("--input", str(source), "--shard", "1/2")
    source.write_text(content.replace("line 3", "line x"))
    assert "a.txt: has changed since the job began" in batch("--input", str(source), code=2)


def test_files_of_other_origin_are_not_replaced(batch: Any, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/a.txt").write_text("mine")
    message = batch("--input", str(tmp_path / "in"), code=2)
    assert "a.txt exists and is not of this job" in message
    assert (tmp_path / "out/a.txt").read_text() == "mine"


def test_parts_with_missing_rows_are_not_joined(batch: Any, tmp_path: Path) -> None:
    words = ("--input", str(tmp_path / "in/a.txt"))
    batch(*words, "--shard", "1/2")
    (tmp_path / "out/a.txt.parts/00000000.txt").write_text("too few\n")
    assert "have 86 rows and a.txt 95" in batch(*words, code=1)
    assert not (tmp_path / "out/a.txt").exists()


@pytest.mark.parametrize("name", ["jsonl", "tsv", "parquet"])
def test_every_format_is_kept(batch: Any, tmp_path: Path, name: str) -> None:
    source, target = tmp_path / f"c.{name}", tmp_path / f"out/c.{name}"
    texts = ["a", "poison", "", "b"]
    if name == "parquet":
        parquet.write_table(pyarrow.table({"words": texts}), source)
    elif name == "jsonl":
        source.write_text("".join(json.dumps({"words": text}) + "\n" for text in texts))
    else:
        source.write_text("".join(f"{number}\t{text}\n" for number, text in enumerate(texts)))
    report = batch("--input", str(source), "--field", "words", "--column", "2")
    assert (report["done"]["rows"], report["done"]["errors"]) == (4, 1)
    if name == "tsv":
        pairs = [line.split("\t")[2:] for line in target.read_text().splitlines()]
    elif name == "jsonl":
        rows = [json.loads(line) for line in target.read_text().splitlines()]
        pairs = [[row.get("translation", ""), row.get("error", "")] for row in rows]
    else:
        rows = parquet.read_table(target).to_pylist()
        pairs = [[row["translation"] or "", row["error"] or ""] for row in rows]
    assert pairs == [["<A>", ""], ["", "the text is refused"], ["", ""], ["<B>", ""]]


def test_a_plan_translates_a_sample_and_keeps_nothing(batch: Any, tmp_path: Path) -> None:
    plan = batch("--input", str(tmp_path / "in/a.txt"), "--plan", "--core-hour-price", "0.05")
    assert (plan["rows"], plan["sampled_errors"], plan["core_hours"]) == (95, 0, None)
    assert plan["rows"] >= plan["sampled_rows"] > 0
    assert plan["characters"] > 0
    assert plan["hours"] == pytest.approx(95 / plan["rows_per_s"] / 3600)
    assert files(tmp_path / "out") == {"_batch.json", "a.txt.parts/_index.json"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--shard", "0/3"], "--shard 0/3: give I/N, such as 1/8 to 8/8"),
        (["--shard", "4/3"], "--shard 4/3: give I/N"),
        (["--input", "nowhere"], "nowhere: no file is there"),
        (["--batch-size", "0"], "--batch-size 0: give 1 or more"),
        (["--pivot", "en"], "--pivot: is for a local engine; give --bundle"),
        (["--core-hour-price", "1"], "--core-hour-price: is for --plan"),
        (["--format", "tsv", "--column", "0"], "column 0: columns are counted from 1"),
        (["--beam-width", "0"], "beam_width is 0"),
        (["--output", "{}/in/out"], "in/out: is in"),
    ],
)
def test_invalid_options_are_refused_in_one_line(
    batch: Any, tmp_path: Path, words: list[str], message: str
) -> None:
    given = [word.format(tmp_path) for word in words]
    refusal = batch("--input", str(tmp_path / "in"), *given, code=2)
    assert message in refusal
    assert refusal.count("\n") == 1

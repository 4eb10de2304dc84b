"""`dragoman batch` from an object store into it: SeaweedFS, over its S3 API."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest
from dragoman_client.testing import FakeServer
from pyarrow import dataset, fs, parquet

from tests.conftest import CommandLine
from tests.object_store import CREDENTIALS, object_store
from tests.toy import reverse_pairs

WAIT_S = 240
RAY_ROWS = 4000


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with (
        object_store(tmp_path_factory.mktemp("store")) as address,
        pytest.MonkeyPatch.context() as it,
    ):
        for name, value in CREDENTIALS.items():
            it.setenv(name, value)
        yield address


@pytest.mark.thorough
def test_objects_are_translated_once_and_written_in_parts(endpoint: str, cli: CommandLine) -> None:
    query = f"?endpoint_override={endpoint}&scheme=http"
    s3 = fs.S3FileSystem(endpoint_override=endpoint, scheme="http", allow_bucket_creation=True)
    s3.create_dir("corpora")
    texts = [str(number) for number in range(25)]
    parquet.write_table(pyarrow.table({"text": texts}), "corpora/in/a.parquet", filesystem=s3)
    parquet.write_table(pyarrow.table({"text": ["x"]}), "corpora/in/b/c.parquet", filesystem=s3)

    with FakeServer() as server:
        words = ["--quiet", "batch", "--url", server.grpc_url, "--chunk-rows", "10", "--json"]
        words += ["--input", f"s3://corpora/in{query}", "--output", f"s3://corpora/out{query}"]
        done = []
        for more in (["--shard", "1/2"], [], []):
            report = json.loads(cli.prints(*words, *more))
            done.append((report["done"]["rows"], report["earlier_rows"], report["left_rows"]))
    assert done == [(15, 0, 11), (11, 15, 0), (0, 26, 0)]
    parts = dataset.dataset("corpora/out/a.parquet.parts", filesystem=s3, format="parquet")
    assert parts.to_table().column("translation").to_pylist() == [f"<{text}>" for text in texts]
    assert s3.get_file_info("corpora/out/b/c.parquet.parts/00000000.parquet").is_file


@pytest.mark.thorough
def test_ray_translates_objects_although_the_command_is_killed(
    endpoint: str, random_bundle: Path, tmp_path: Path
) -> None:
    s3 = fs.S3FileSystem(endpoint_override=endpoint, scheme="http", allow_bucket_creation=True)
    s3.create_dir("ray")
    texts = [source for source, _ in reverse_pairs(RAY_ROWS, seed=4)]
    texts[0] = texts[RAY_ROWS // 2] = ""
    texts[RAY_ROWS // 3] = "red " * 30_000  # more than the model takes
    ids = [f"id-{number}" for number in range(RAY_ROWS)]
    table = pyarrow.table({"id": ids, "text": texts})
    half = RAY_ROWS // 2
    (tmp_path / "in").mkdir()
    for name, rows in (("a.parquet", table[:half]), ("b.parquet", table[half:])):
        parquet.write_table(rows, tmp_path / "in" / name)
        parquet.write_table(rows, f"ray/in/{name}", filesystem=s3)

    def command(source: str, target: str, *more: str) -> list[str]:
        return [
            *(sys.executable, "-m", "dragoman", "--quiet", "batch", "--json", "--workers", "1"),
            *("--input", source, "--output", target, "--bundle", str(random_bundle)),
            *("--target-language", "de", "--chunk-rows", "100", *more),
        ]

    whole = command(str(tmp_path / "in"), str(tmp_path / "whole"))
    subprocess.run(whole, check=True, stdout=subprocess.DEVNULL)
    expected = dataset.dataset(sorted((tmp_path / "whole").glob("*.parquet"))).to_table()

    query = f"?endpoint_override={endpoint}&scheme=http"
    words = command(f"s3://ray/in{query}", f"s3://ray/out{query}", "--ray", "local")
    everything = fs.FileSelector("ray/out", recursive=True, allow_not_found=True)

    def parts() -> list[str]:
        infos = s3.get_file_info(everything)
        return sorted(info.path for info in infos if info.is_file and info.base_name[0] == "0")

    # Another cluster, which a local Ray must not join.
    environment = {**os.environ, "RAY_ADDRESS": "127.0.0.1:1"}
    driver = subprocess.Popen(words, stdout=subprocess.DEVNULL, env=environment)
    deadline_s = time.monotonic() + WAIT_S
    while len(parts()) < 5:
        assert driver.poll() is None
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    driver.kill()
    driver.wait()
    before = len(parts())
    assert 5 <= before < RAY_ROWS / 100

    again = subprocess.run(
        words, check=True, stdout=subprocess.PIPE, timeout=WAIT_S, env=environment
    )
    report = json.loads(again.stdout)
    assert report["earlier_rows"] >= 100 * before
    assert report["earlier_rows"] + report["done"]["rows"] == RAY_ROWS
    assert report["left_rows"] == 0
    assert len(parts()) == RAY_ROWS / 100
    written = dataset.dataset(parts(), filesystem=s3, format="parquet").to_table()
    assert written.column("id").to_pylist() == ids
    assert written.equals(expected)
    errors = written.column("error").to_pylist()
    assert [row for row, error in enumerate(errors) if error] == [RAY_ROWS // 3]


def test_a_uri_without_storage_is_refused_in_one_line(tmp_path: Path, cli: CommandLine) -> None:
    uri = "nothing://bucket/folder"
    message = cli.refuses("batch", "--input", uri, "--output", tmp_path / "out")
    assert message.startswith("dragoman batch: nothing://bucket")
    assert message.count("\n") == 1

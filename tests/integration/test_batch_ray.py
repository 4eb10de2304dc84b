"""`dragoman batch` on a Ray cluster of three nodes on this machine, some of which die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_batch_shards import command, results, write_input
from tests.waiting import wait_for

ROWS = 6000
WAIT_S = 240


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head, and two nodes of one core each."""
    from ray.cluster_utils import Cluster

    running = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    yield running
    running.shutdown()


def actors() -> list[int]:
    """Processes of actors that translate."""
    titles = ((path, path.joinpath("cmdline")) for path in Path("/proc").glob("[0-9]*"))
    return [int(path.name) for path, title in titles if _read(title).startswith(b"ray::Map")]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.thorough
def test_killed_nodes_and_actors_lose_no_row(
    random_bundle: Path, tmp_path: Path, cluster: Any
) -> None:
    write_input(tmp_path / "in", ROWS)
    whole = command(random_bundle, tmp_path, "whole")
    subprocess.run(whole, check=True, stdout=subprocess.DEVNULL)

    nodes = [cluster.add_node(num_cpus=1, object_store_memory=150_000_000) for _ in range(2)]
    words = command(random_bundle, tmp_path, "ray", "--ray", cluster.address)
    parts = tmp_path / "ray/a.txt.parts"

    def done() -> int:
        return len(list(parts.glob("0*")))

    driver = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    wait_for(lambda: done() > 2)
    os.kill(actors()[0], signal.SIGKILL)
    wait_for(lambda: done() > 10)
    cluster.remove_node(nodes.pop(), allow_graceful=False)
    wait_for(lambda: done() > 20)
    driver.kill()
    driver.wait()
    assert 20 < done() < ROWS / 100
    assert not (tmp_path / "ray/a.txt").exists()

    again = subprocess.run(words, check=True, capture_output=True, timeout=WAIT_S)
    report = json.loads(again.stdout)
    assert report["earlier_rows"] > 0
    assert report["earlier_rows"] + report["done"]["rows"] == ROWS
    assert report["left_rows"] == 0
    assert results(tmp_path / "ray") == results(tmp_path / "whole")

"""A Ray that does not start."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from dragoman_serving.batch.ray_run import LOCAL, Cluster

from dragoman.kernel.errors import DragomanError

SLOW = "The current node timed out during startup."


@pytest.mark.parametrize(
    ("address", "failures", "starts"),
    [
        (LOCAL, [], 1),
        (LOCAL, [SLOW], 2),
        (LOCAL, [SLOW, SLOW], 2),
        (LOCAL, ["no memory"], 1),
        ("127.0.0.1:1", [SLOW], 1),
    ],
)
def test_a_local_ray_that_is_slow_is_started_again_once(
    monkeypatch: pytest.MonkeyPatch, address: str, failures: list[str], starts: int
) -> None:
    started: list[str] = []

    def init(**settings: Any) -> None:
        started.append(settings["address"])
        if len(started) <= len(failures):
            raise Exception(failures[len(started) - 1])

    monkeypatch.setattr("ray.init", init)
    monkeypatch.setattr("ray.shutdown", lambda: None)
    is_up = len(failures) < starts
    refused = pytest.raises(DragomanError, match=f"--ray {address}: ")
    with nullcontext() if is_up else refused, Cluster(address, 1, 1).connected():
        pass
    assert started == starts * [address]

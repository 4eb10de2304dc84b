from __future__ import annotations

from pathlib import Path

import pytest
from dragoman_serving.launch.backends import Installation
from dragoman_serving.launch.ports import Ports
from dragoman_serving.launch.repository import Repository
from dragoman_serving.launch.serve_options import ServeOptions
from dragoman_serving.launch.triton_process import _command

from dragoman.kernel.tracing import TraceOptions
from tests.conftest import REPOSITORY


def command_of(folder: Path, options: ServeOptions) -> list[str]:
    installation = Installation(folder / "tritonserver", folder, None, (), embedded=True)
    repository = Repository(REPOSITORY / "model_repository")
    return _command(options, repository, Ports(1, 2, 3), installation)


@pytest.mark.parametrize(("rate", "one_in"), [(0, 0), (0.01, 100), (0.3, 3), (1, 1)])
def test_triton_traces_the_given_share(tmp_path: Path, rate: float, one_in: int) -> None:
    options = ServeOptions(tmp_path, tracing=TraceOptions("http://collector:4318", rate))
    words = [word for word in command_of(tmp_path, options) if word.startswith("--trace")]
    assert f"--trace-config=rate={one_in}" in words
    assert "--trace-config=opentelemetry,url=http://collector:4318/v1/traces" in words
    assert not [word for word in command_of(tmp_path, ServeOptions(tmp_path)) if "trace-c" in word]


@pytest.mark.parametrize(
    ("age_s", "flags"), [(None, []), (120, ["--grpc-max-connection-age=120000"])]
)
def test_a_connection_has_a_maximum_age_on_request(
    tmp_path: Path, age_s: int | None, flags: list[str]
) -> None:
    options = ServeOptions(tmp_path, grpc_connection_age_s=age_s)
    command = command_of(tmp_path, options)
    assert [word for word in command if word.startswith("--grpc-max")] == flags

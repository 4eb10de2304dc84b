from __future__ import annotations

from pathlib import Path

import pytest
from dragoman_serving.launch.backends import Installation
from dragoman_serving.launch.ports import Ports
from dragoman_serving.launch.repository import Repository
from dragoman_serving.launch.serve_options import ServeOptions
from dragoman_serving.launch.triton_process import _command

from tests.conftest import REPOSITORY


@pytest.mark.parametrize(
    ("age_s", "flags"), [(None, []), (120, ["--grpc-max-connection-age=120000"])]
)
def test_a_connection_has_an_age_if_it_was_asked_for(
    tmp_path: Path, age_s: int | None, flags: list[str]
) -> None:
    options = ServeOptions(tmp_path, grpc_connection_age_s=age_s)
    installation = Installation(tmp_path / "tritonserver", tmp_path, None, (), embedded=True)
    repository = Repository(REPOSITORY / "model_repository")
    command = _command(options, repository, Ports(1, 2, 3), installation)
    assert [word for word in command if word.startswith("--grpc-max")] == flags

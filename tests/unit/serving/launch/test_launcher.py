from __future__ import annotations

import json
import resource
import shutil
import socket
from pathlib import Path

import pytest
from dragoman_export.publishing import publish
from dragoman_serving.launch.launcher import TritonServer
from dragoman_serving.launch.ports import free_ports
from dragoman_serving.launch.serve_options import ServeOptions

from dragoman.cli import main
from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import FILE_NAME


@pytest.fixture(scope="module")
def repository(random_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published") / "repository"
    publish(random_bundle, folder)
    return folder


def refusal(options: ServeOptions) -> str:
    with pytest.raises(UsageError) as caught:
        TritonServer(options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_missing_repository_or_model_is_named(tmp_path: Path, repository: Path) -> None:
    assert "holds no model 'translate'" in refusal(ServeOptions(tmp_path / "none"))
    copy = Path(shutil.copytree(repository, tmp_path / "copy"))
    shutil.rmtree(copy / "translate" / "1" / "bundle")
    assert "bundle: no model here" in refusal(ServeOptions(copy))


def test_a_damaged_or_escaping_bundle_is_refused(tmp_path: Path, repository: Path) -> None:
    copy = Path(shutil.copytree(repository, tmp_path / "copy"))
    bundle = copy / "translate" / "1" / "bundle"
    with (bundle / "model.safetensors").open("ab") as file:
        file.write(b"x")
    assert "SHA-256 differs" in refusal(ServeOptions(copy))
    manifest = json.loads((bundle / FILE_NAME).read_text())
    manifest["files"]["../../config.pbtxt"] = "0"
    (bundle / FILE_NAME).write_text(json.dumps(manifest))
    assert "leaves the bundle's folder" in refusal(ServeOptions(copy))


def test_a_port_in_use_is_named(repository: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = refusal(ServeOptions(repository, http_port=port))
        assert f"--http-port {port} is in use" in message
    for port in (-1, 65536):
        # The usual ports may be in use: the README recommends tests beside a running server.
        message = refusal(ServeOptions(repository, http_port=0, grpc_port=port))
        assert f"port {port}: give 1 to 65535" in message
    (port,) = free_ports(1)
    assert "must differ" in refusal(ServeOptions(repository, http_port=port, grpc_port=port))


@pytest.mark.skipif(shutil.which("tritonserver") is not None, reason="not the embedded server")
def test_the_embedded_server_stays_on_loopback(repository: Path) -> None:
    message = refusal(ServeOptions(repository, address="0.0.0.0"))
    assert "known vulnerabilities (docs/deployment.md)" in message
    assert "--expose-unpatched-server" in message
    assert "give an IP address" in refusal(ServeOptions(repository, address="localhost"))


def test_a_limit_of_open_files_that_cannot_work_is_refused(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (100, 100))
    message = refusal(ServeOptions(repository, http_port=0, grpc_port=0, metrics_port=0))
    assert "the hard limit of open files is 100, and the server needs 256" in message
    assert "ulimit -Hn" in message


@pytest.mark.parametrize("number", ["0", "-1"])
@pytest.mark.parametrize(
    ("flag", "unit"),
    [
        ("engine-timeout", "seconds"),
        ("grpc-connection-age", "seconds"),
        ("triton-growth", "MiB"),
    ],
)
def test_a_bound_that_cannot_be_kept_is_refused(
    capsys: pytest.CaptureFixture[str], flag: str, unit: str, number: str
) -> None:
    assert main(["serve", f"--{flag}={number}"]) == 2
    assert f"--{flag} {number}: give {unit} above 0" in capsys.readouterr().err

from __future__ import annotations

import json
import re
import resource
import shutil
import socket
import tempfile
from pathlib import Path

import pytest
from dragoman_client import Translator
from dragoman_export.publishing import publish
from dragoman_serving.launch.launcher import TritonServer
from dragoman_serving.launch.ports import free_ports
from dragoman_serving.launch.serve_options import ServeOptions
from dragoman_serving.service.models_to_serve import ModelsToServe

from dragoman.cli import main
from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import FILE_NAME
from tests.conftest import REPOSITORY, CommandLine


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


def test_a_machine_without_a_temporary_folder_is_told_to_set_one(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere"])
    options = ServeOptions(repository, http_port=0, grpc_port=0, metrics_port=0)
    assert "set TMPDIR to one that can" in refusal(options)


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
    assert "publish the gateway instead (--gateway-address)" in message
    assert "give an IP address" in refusal(ServeOptions(repository, address="localhost"))


def test_a_too_low_limit_of_open_files_is_refused(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (100, 100))
    message = refusal(ServeOptions(repository, http_port=0, grpc_port=0, metrics_port=0))
    assert "the hard limit of open files is 100, and the server needs 256" in message
    assert "ulimit -Hn" in message


@pytest.mark.parametrize("number", ["0", "-1"])
@pytest.mark.parametrize(
    ("flag", "unit"),
    [("engine-timeout", "seconds"), ("grpc-connection-age", "seconds"), ("triton-growth", "MiB")],
)
def test_a_memory_limit_that_cannot_be_kept_is_refused(
    cli: CommandLine, flag: str, unit: str, number: str
) -> None:
    assert f"--{flag} {number}: give {unit} above 0" in cli.refusal("serve", f"--{flag}={number}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--memory", "1MB"], "--memory 1MB: the engine takes 113 MB, and the model "),
        (["--memory", "0.5 GiB", "--precision", "fp32"], "--memory limits only the native runtime"),
        (["--memory", "-5"], "--memory -5: give bytes, such as 4GB or 512MiB"),
        (["--memory", ""], "--memory : give bytes, such as 4GB or 512MiB"),
        (["--memory", "much"], "--memory much: give bytes, such as 4GB or 512MiB"),
        (["--pivot", "it"], "--pivot it: no model has this language; known: en, de"),
        (["--pivot", ""], "--pivot : no model has this language; known: en, de"),
        (["--preload", "de-it"], "--preload de-it: neither a model nor a direction; known: "),
        (["--preload", "en-de", "it"], "--preload it: neither a model nor a direction; known: "),
    ],
)
@pytest.mark.parametrize("kind", ["repository", "bundle"])
def test_wrong_settings_for_models_are_refused_in_one_line(
    request: pytest.FixtureRequest, cli: CommandLine, kind: str, words: list[str], message: str
) -> None:
    folder = request.getfixturevalue("random_bundle" if kind == "bundle" else "repository")
    served = [str(folder)] if kind == "bundle" else ["--repository", str(folder)]
    line = cli.refusal("serve", *served, "--no-gateway", *words)
    assert message in line
    assert line.startswith("dragoman serve: ")


@pytest.mark.parametrize("flag", ["--memory", "--pivot", "--preload"])
def test_a_flag_without_its_value_is_refused_in_one_line(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["serve", flag])
    assert caught.value.code == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"dragoman serve: argument {flag}: expected ")
    assert printed.endswith(": see dragoman serve --help\n")
    assert printed.count("\n") == 1


def test_the_reported_minimum_of_memory_is_enough(random_bundle: Path) -> None:
    def options(memory_bytes: int, *others: Path) -> ServeOptions:
        bundles = tuple(map(str, (random_bundle, *others)))
        to_serve = ModelsToServe(bundles, memory_bytes=memory_bytes)
        return ServeOptions(None, http_port=0, grpc_port=0, metrics_port=0, to_serve=to_serve)

    match = re.search(r"give at least (\d+)MB$", refusal(options(1)))
    assert match is not None
    least_bytes = int(match[1]) * 10**6
    assert refusal(options(least_bytes - 10**6))
    shipped = REPOSITORY / "model_repository" / "translate" / "1" / "bundle"
    assert "the model 'en-de-fr' up to " in refusal(options(1, shipped))  # the largest one
    with TritonServer(options(least_bytes)) as server, Translator(server.grpc_url) as client:
        assert client.info().languages == ("en", "de")

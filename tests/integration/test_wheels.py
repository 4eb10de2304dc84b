"""The wheels in an empty environment, outside any checkout, without a C compiler."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

PYTHONS = ("python3.11", "python3.12")
PARTS = (
    *("build_backend", "client", "dragoman", "export", "locks", "model_repository", "serving"),
    *("training", "LICENSE", "MANIFEST.in", "Makefile", "README.md", "pyproject.toml", "setup.py"),
)
"""What wheels are made of; the rest of the project is left out."""
ELF_MACHINE, AARCH64 = 18, b"\xb7\0"
"""Where a library's machine is named, and how."""
SENTENCE = {"text_input": "Good morning.", "target_language": "de"}


def runs(python: str) -> bool:
    """Whether there is such a Python."""
    path = shutil.which(python)
    return (
        path is not None and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0
    )


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made by Zig, from a copy of the project."""
    project = tmp_path_factory.mktemp("wheels") / "project"
    project.mkdir()
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info", "build")
    for name in PARTS:
        if (REPOSITORY / name).is_dir():
            shutil.copytree(REPOSITORY / name, project / name, ignore=ignored)
        else:
            shutil.copy(REPOSITORY / name, project / name)
    strict = {**os.environ, "CFLAGS": "-Wall -Wextra -Werror"}
    command = ["make", "wheels", f"PYTHON={sys.executable}"]
    subprocess.run([*command, "MACHINE=aarch64"], cwd=project, env=strict, check=True)
    (project / "dist").rename(project / "aarch64")
    subprocess.run(command, cwd=project, env=strict, check=True)
    return project / "dist"


@pytest.fixture(scope="module", params=[python for python in PYTHONS if runs(python)])
def folder(
    request: pytest.FixtureRequest, wheels: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """An empty folder with an environment `v` in which the wheels are installed."""
    folder = tmp_path_factory.mktemp("empty")
    subprocess.run([request.param, "-m", "venv", "v"], cwd=folder, check=True)
    (server,) = wheels.glob("dragoman-*.whl")
    others = [str(path) for path in wheels.iterdir() if path != server]
    pip = [str(folder / "v" / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, *others, f"{server}[serve]"], cwd=folder, check=True)
    return folder


def dragoman(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(folder / "v" / "bin" / "dragoman"), *words]
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=120
    )


def environment() -> dict[str, str]:
    """Ours, without what leads to the checkout."""
    left_out = ("PYTHONPATH", "VIRTUAL_ENV", "DRAGOMAN_URL")
    return {name: value for name, value in os.environ.items() if name not in left_out}


@pytest.fixture(scope="module")
def urls(folder: Path) -> Iterator[tuple[str, str]]:
    """Of `dragoman serve` without a repository, over HTTP and gRPC."""
    ports = [f"--{name}-port=0" for name in ("http", "grpc", "metrics")]
    command = [str(folder / "v" / "bin" / "dragoman"), "serve", *ports]
    with (folder / "log").open("w+") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment(), stderr=log)
        try:
            deadline_s = time.monotonic() + 60
            while not (found := re.search(r"ready: (\S+) and (\S+)", (folder / "log").read_text())):
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline_s
                time.sleep(0.1)
            yield found[1], found[2]
        finally:
            process.terminate()
            process.wait(60)


def test_everything_is_compiled(wheels: Path) -> None:
    """Without a warning; the kernels are optional, so that a failure would not end the build."""
    (server,) = wheels.glob("dragoman-*.whl")
    names = zipfile.ZipFile(server).namelist()
    assert "dragoman_serving/relay/_relay.so" in names
    assert "dragoman_serving/engine/compiled/_kernels.so" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_relay_is_compiled_for_another_machine(wheels: Path) -> None:
    (server,) = (wheels.parent / "aarch64").glob("dragoman-*-py3-none-manylinux_2_28_aarch64.whl")
    with zipfile.ZipFile(server) as wheel:
        (library,) = (name for name in wheel.namelist() if name.endswith(".so"))
        head = wheel.read(library)[: ELF_MACHINE + 2]
    assert library == "dragoman_serving/relay/_relay.so"
    assert head[ELF_MACHINE:] == AARCH64


def test_platforms_are_named_and_pythons_are_not(wheels: Path) -> None:
    names = sorted(path.name for path in wheels.iterdir())
    assert [re.sub(r"-\d[\w.]*-", "-", name, count=1) for name in names] == [
        f"dragoman-py3-none-manylinux_2_28_{os.uname().machine}.whl",
        "dragoman_client-py3-none-any.whl",
        "dragoman_model-py3-none-any.whl",
    ]


def test_the_shipped_model_is_served(folder: Path, urls: tuple[str, str]) -> None:
    http, grpc = urls
    request = urllib.request.Request(
        f"{http}/v2/models/translate/generate", data=json.dumps(SENTENCE).encode()
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert json.load(answer)["text_output"] == "Guten Morgen."
    done = dragoman(folder, "translate", "--url", grpc, "--target-language", "de", "Good morning.")
    assert (done.returncode, done.stdout) == (0, "Guten Morgen.\n")
    log = (folder / "log").read_text().splitlines()
    assert [line.partition(" ")[0] for line in log] == ["dragoman:", "settings:", "ready:"], log


def test_what_is_compiled_is_found(folder: Path) -> None:
    done = dragoman(folder, "doctor")
    assert "the relay between Triton and the engine is compiled" in done.stdout + done.stderr


def test_a_bundle_is_published(folder: Path, urls: tuple[str, str]) -> None:
    (bundle,) = folder.glob("v/lib/*/site-packages/dragoman_model/translate/1/bundle")
    assert dragoman(folder, "publish", str(bundle), "--to", "mine").returncode == 0
    assert (folder / "mine" / "translate" / "config.pbtxt").is_file()


@pytest.mark.parametrize(
    ("words", "module", "extra"),
    [
        (("load-test", "--url", "URL", "--windows", "1"), "hdrh", "load-test"),
        (("train", "--text", "a", "b", "--out", "run"), "torch", "train"),
        (("export", "onnx", "run", "--out", "bundle"), "onnx", "export"),
    ],
)
def test_a_missing_extra_is_named(
    folder: Path, urls: tuple[str, str], words: tuple[str, ...], module: str, extra: str
) -> None:
    done = dragoman(folder, *(urls[1] if word == "URL" else word for word in words))
    assert done.returncode == 2
    assert done.stderr == (
        f"dragoman {words[0]}: {module} is not installed: pip install 'dragoman[{extra}]'\n"
    )

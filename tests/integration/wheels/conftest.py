"""Wheels of the project, and environments outside any checkout in which they are installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

PYTHONS = ("python3.11", "python3.12")
PARTS = (
    *("build_backend", "client", "dragoman", "export", "gateway", "locks", "model_repository"),
    *(
        "serving",
        "training",
        "LICENSE",
        "MANIFEST.in",
        "Makefile",
        "README.md",
        "pyproject.toml",
        "setup.py",
    ),
)
"""The files that wheels are built from; the rest of the project is omitted."""
COMMAND_S = 300


@dataclass(frozen=True)
class Installed:
    """A folder with an environment `v` in which the wheels are installed, and nothing else."""

    folder: Path

    @property
    def log(self) -> str:
        """The server's log."""
        return (self.folder / "log").read_text()

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment."""
        return subprocess.run(
            [self._program(words[0]), *words[1:]],
            cwd=self.folder,
            env=_variables(),
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
        )

    def dragoman(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command."""
        return self.run("dragoman", *words)

    @contextmanager
    def serving(self, *words: str) -> Iterator[tuple[str, str]]:
        """URLs over HTTP and gRPC of `dragoman serve`."""
        ports = [f"--{name}-port=0" for name in ("http", "grpc", "metrics", "gateway")]
        command = [self._program("dragoman"), "serve", *ports, *words]
        with (self.folder / "log").open("w") as log:
            process = subprocess.Popen(command, cwd=self.folder, env=_variables(), stderr=log)
            try:
                deadline_s = time.monotonic() + COMMAND_S
                while not (found := re.search(r"ready: (\S+) and (\S+)", self.log)):
                    assert process.poll() is None, self.log
                    assert time.monotonic() < deadline_s
                    time.sleep(0.1)
                yield found[1], found[2]
            finally:
                process.terminate()
                process.wait(COMMAND_S)

    def _program(self, name: str) -> str:
        return str(self.folder / "v" / "bin" / name)


def _variables() -> dict[str, str]:
    """Our environment variables, without those that lead to the checkout."""
    left_out = ("PYTHONPATH", "VIRTUAL_ENV", "DRAGOMAN_URL")
    return {name: value for name, value in os.environ.items() if name not in left_out}


@pytest.fixture(scope="package")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the files that wheels are built from; removed after the tests."""
    folder = tmp_path_factory.mktemp("wheels")
    project = folder / "project"
    project.mkdir()
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info", "build")
    for name in PARTS:
        if (REPOSITORY / name).is_dir():
            shutil.copytree(REPOSITORY / name, project / name, ignore=ignored)
        else:
            shutil.copy(REPOSITORY / name, project / name)
    yield project
    shutil.rmtree(folder)


@pytest.fixture(scope="package")
def wheels(project: Path) -> Path:
    """For this machine, made by Zig."""
    return _make_wheels(project, os.uname().machine)


@pytest.fixture(scope="package")
def aarch64_wheel(project: Path) -> Path:
    """The server's wheel, cross-compiled."""
    (wheel,) = _make_wheels(project, "aarch64").glob("dragoman-*_aarch64.whl")
    return wheel


def _make_wheels(project: Path, machine: str) -> Path:
    # The development environment has what builds wheels; `make` would fill another one.
    environment = project / ".venv-build"
    if not environment.is_symlink():
        environment.symlink_to(sys.prefix)
    strict = {**os.environ, "CFLAGS": "-Wall -Wextra -Werror"}
    command = ["make", "wheels", f"MACHINE={machine}", f"--old-file={environment.name}/.done"]
    subprocess.run(command, cwd=project, env=strict, check=True)
    return (project / "dist").rename(project.parent / machine)


@contextmanager
def installing(folder: Path, wheels: Path, extras: str, python: str) -> Iterator[Installed]:
    """Install the wheels, the server's with these extras; at the end remove the folder.

    uv takes a tenth of pip's time, but does not read pip's settings, which may say where torch is.
    """
    subprocess.run([python, "-m", "venv", "v"], cwd=folder, check=True)
    (server,) = wheels.glob("dragoman-*.whl")
    others = [str(path) for path in wheels.iterdir() if path != server]
    program = str(folder / "v" / "bin" / "python")
    command = [program, "-m", "pip", "install"]
    if "export" not in extras.split(","):
        command = [sys.executable, "-m", "uv", "pip", "install", "--python", program]
    subprocess.run([*command, "--quiet", *others, f"{server}[{extras}]"], cwd=folder, check=True)
    yield Installed(folder)
    shutil.rmtree(folder)


def _runs(python: str) -> bool:
    path = shutil.which(python)
    return (
        path is not None and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0
    )


@pytest.fixture(scope="session", params=[python for python in PYTHONS if _runs(python)])
def python(request: pytest.FixtureRequest) -> str:
    """Each supported Python that is installed."""
    return str(request.param)

"""Wheels of the project, and environments outside any checkout in which they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.servers import ServeCommand, running

PYTHONS = ("python3.11", "python3.12")
PARTS = (
    *("build_backend", "client", "dragoman", "export", "gateway", "load_test", "locks"),
    *("model_repository", "serving", "training"),
    *("LICENSE", "MANIFEST.in", "Makefile", "README.md", "pyproject.toml", "setup.py"),
)
"""The files that wheels are built from; the rest of the project is omitted."""
COMMAND_S = 300
_LEFT_OUT = ("PYTHONPATH", "VIRTUAL_ENV", "DRAGOMAN_URL")
"""Environment variables that lead to the checkout."""


@dataclass(frozen=True)
class Installed:
    """A folder with an environment `v` in which the wheels are installed, and nothing else."""

    folder: Path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment."""
        return subprocess.run(
            [self._program(words[0]), *words[1:]],
            cwd=self.folder,
            env={name: value for name, value in os.environ.items() if name not in _LEFT_OUT},
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
        )

    def dragoman(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command."""
        return self.run("dragoman", *words)

    @contextmanager
    def serving(self, *words: str) -> Iterator[ServeCommand]:
        """`dragoman serve`, when it is ready."""
        how: Any = {"environment": dict.fromkeys(_LEFT_OUT), "cwd": self.folder}
        program = (self._program("dragoman"), "serve")
        with running(self.folder, *words, program=program, **how) as server:
            yield server
            server.process.terminate()
            server.process.wait(COMMAND_S)

    def _program(self, name: str) -> str:
        return str(self.folder / "v" / "bin" / name)


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
    others = [str(path) for path in wheels.glob("dragoman_[cm]*.whl")]  # the client, the model
    program = str(folder / "v" / "bin" / "python")
    command = [program, "-m", "pip", "install", "--no-compile"]
    if "export" not in extras.split(","):
        command = [sys.executable, "-m", "uv", "pip", "install", "--python", program]
    command += ["--quiet", "--find-links", str(wheels), *others, f"{server}[{extras}]"]
    subprocess.run(command, cwd=folder, check=True)
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

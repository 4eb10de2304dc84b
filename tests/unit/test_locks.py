"""The lock files, compared with the requirements from which `make lock` makes them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import dragoman_build
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import REPOSITORY

LOCKS = sorted((REPOSITORY / "locks").glob("*.txt"))
PYTHONS = ("3.11", "3.12")
LINE = re.compile(r"(\S+==\S+(?: ; [^\\#]+?)?)((?: +--hash=sha256:[0-9a-f]{64})+)")
COMPILE = re.compile(r"\$\(COMPILE\) --python-version (\S+) ((?:--extra \S+ )+)-o locks/(\S+)")
MAKE = {
    name: (python, tuple(extras.split()[1::2]))
    for python, extras, name in COMPILE.findall((REPOSITORY / "Makefile").read_text())
}
"""For each lock, the oldest Python that it supports, and what it locks."""


def project(folder: str = ".") -> dict[str, Any]:
    return tomllib.loads((REPOSITORY / folder / "pyproject.toml").read_text())


def locked(path: Path) -> list[Requirement]:
    """The versions that a lock allows."""
    lines = path.read_text().replace("\\\n", " ").splitlines()
    matches = [LINE.fullmatch(line.strip()) for line in lines if line and line.lstrip()[0] != "#"]
    assert all(matches), f"{path}: a line is not NAME==VERSION with SHA-256 hashes"
    return [Requirement(match[1]) for match in matches if match]


def required(extras: tuple[str, ...], folder: str = ".") -> Iterator[Requirement]:
    """The requirements of our packages with these extras, on other packages."""
    metadata = project(folder)["project"]
    lists = [metadata["dependencies"], *(metadata["optional-dependencies"][e] for e in extras)]
    for requirement in (Requirement(word) for words in lists for word in words):
        if requirement.name == "dragoman":
            yield from required(tuple(requirement.extras))
        elif requirement.name == "dragoman-client":
            yield from required(tuple(requirement.extras), "client")
        elif requirement.name == "dragoman-load-test":
            yield from required((), "load_test")
        else:
            yield requirement


def holds(requirement: Requirement, python: str, machine: str) -> bool:
    """Whether a requirement applies to this Python on Linux."""
    environment = {
        **{"python_version": python, "python_full_version": f"{python}.4"},
        **{"sys_platform": "linux", "platform_system": "Linux", "platform_machine": machine},
    }
    return requirement.marker is None or requirement.marker.evaluate(environment)


def versions(lock: str, python: str, machine: str = "x86_64") -> dict[str, str]:
    """The packages that a lock installs, by name."""
    lines = [
        requirement
        for requirement in locked(REPOSITORY / "locks" / lock)
        if holds(requirement, python, machine)
    ]
    pinned = {
        str(canonicalize_name(requirement.name)): next(iter(requirement.specifier)).version
        for requirement in lines
    }
    assert len(pinned) == len(lines), "two versions of one name"
    return pinned


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_a_lock_has_versions_and_digests_but_no_server(path: Path) -> None:
    assert locked(path)
    assert not re.search(r"://|--(extra-)?index|--find-links|--trusted", path.read_text())


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize(
    ("lock", "python"),
    [(lock, python) for lock in MAKE for python in PYTHONS if python >= MAKE[lock][0]],
)
def test_a_lock_fits_the_requirements(lock: str, python: str, machine: str) -> None:
    pinned = versions(lock, python, machine)
    for requirement in required(MAKE[lock][1]):
        if requirement.name != "torch" and holds(requirement, python, machine):
            version = pinned[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), str(requirement)


def test_every_extra_that_is_installed_has_its_lock() -> None:
    assert MAKE == {
        "serve.txt": ("3.11", ("serve", "import", "load-test")),
        "train.txt": ("3.11", ("export",)),
        "dev.txt": ("3.11", ("serve", "dev")),
        "serve-cpu.txt": ("3.12", ("serve-cpu", "import", "tracing")),
        "gateway.txt": ("3.12", ("gateway-redis", "tracing")),
        "serve-gpu.txt": ("3.12", ("serve-gpu", "tensorrt", "tracing")),
    }
    by_hand = {"kubernetes.txt", "torch.txt", "torch-cpu.txt"}
    assert {path.name for path in LOCKS} == {*MAKE, "build.txt", "uv.txt", *by_hand}


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("lock", ["serve.txt", "train.txt"])
def test_every_lock_has_the_versions_of_the_development_lock(lock: str, python: str) -> None:
    assert versions(lock, python).items() <= versions("dev.txt", python).items()


def test_the_lock_of_uv_fits() -> None:
    uv = versions("uv.txt", "3.11")
    assert uv.items() <= versions("dev.txt", "3.11").items()
    *_, line = (REPOSITORY / "locks" / "uv.in").read_text().splitlines()
    assert line in project()["project"]["optional-dependencies"]["dev"]


def test_the_lock_of_the_build_fits() -> None:
    pinned = versions("build.txt", "3.11")
    needed = [project(folder)["build-system"] for folder in (".", "client", "model_repository")]
    words = {word for system in needed for word in system["requires"]} | {dragoman_build._ZIGLANG}
    written = (REPOSITORY / "locks" / "build.in").read_text().splitlines()
    assert {line for line in written if not line.startswith("#")} == words
    for requirement in map(Requirement, words):
        assert requirement.specifier.contains(pinned[requirement.name])


@pytest.mark.parametrize("lock", ["torch.txt", "torch-cpu.txt"])
def test_torch_is_locked_as_it_is_required(lock: str) -> None:
    (line,) = locked(REPOSITORY / "locks" / lock)
    (requirement,) = (
        requirement for requirement in required(("train",)) if requirement.name == "torch"
    )
    assert line == requirement
    (declared,) = project()["tool"]["uv"]["dependency-metadata"]
    assert f"{declared['name']}=={declared['version']}" == str(requirement)
    # An installed build for GPUs additionally requires CUDA's libraries.
    own = [
        requirement
        for requirement in map(Requirement, requires("torch") or ())
        if "extra" not in str(requirement.marker)
    ]
    others = {
        requirement.name
        for requirement in own
        if not re.match("nvidia|cuda|triton", requirement.name)
    }
    assert others == {Requirement(word).name for word in declared["requires-dist"]}

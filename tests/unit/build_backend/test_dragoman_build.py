"""Which C compiler the build uses; docs/deployment.md has the command of a build with Zig."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import sysconfig
from pathlib import Path

import dragoman_build
import pytest
from setuptools import build_meta

OWN = "x-python-cc"
"""The compiler that compiled Python, under a name that no machine has."""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of the PATH, with no program in it."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    for variable in ("CC", "CFLAGS", "LDSHARED"):
        monkeypatch.delenv(variable, raising=False)
    real = sysconfig.get_config_var
    monkeypatch.setattr(
        sysconfig, "get_config_var", lambda name: f"{OWN} -pthread" if name == "CC" else real(name)
    )
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    return folder


def add(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


def requirements() -> list[str]:
    wheel = dragoman_build.get_requires_for_build_wheel()
    assert dragoman_build.get_requires_for_build_editable() == wheel
    return wheel


def test_setuptools_finds_pythons_own_compiler(programs: Path) -> None:
    add(programs, OWN, "cc", "gcc", "clang")
    assert requirements() == []
    assert dragoman_build.compiler_variables() == {}


@pytest.mark.parametrize("compiler", ["cc", "gcc", "clang"])
def test_another_compiler_does_not_get_pythons_flags(programs: Path, compiler: str) -> None:
    add(programs, compiler)
    assert requirements() == []
    assert dragoman_build.compiler_variables() == {
        "CC": compiler,
        "LDSHARED": f"{compiler} -shared",
        "CFLAGS": "-DNDEBUG -fwrapv",
    }


def test_the_environments_compiler_comes_first(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(programs, OWN, "ccache")
    monkeypatch.setenv("CC", "ccache mycc")
    assert dragoman_build.find_compiler() == "ccache mycc"
    assert requirements() == []
    assert dragoman_build.compiler_variables() == {}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_without_a_compiler_zig_compiles(
    programs: Path, monkeypatch: pytest.MonkeyPatch, machine: str
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert [name.partition(">")[0] for name in requirements()] == ["ziglang"]
    variables = dragoman_build.compiler_variables()
    command = shlex.split(variables["CC"])
    assert command[:6] == [
        *(str(programs / "python"), "-m", "ziglang", "cc"),
        *("-target", f"{machine}-linux-gnu.2.28"),
    ]
    assert shlex.split(variables["LDSHARED"]) == [*command, "-shared"]


def test_a_missing_compiler_is_an_error(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(programs, OWN, "gcc")
    monkeypatch.setenv("CC", "/nonexistent/cc -O2")
    with pytest.raises(SystemExit, match="CC is '/nonexistent/cc -O2': no such program"):
        requirements()


def test_zig_compiles_on_request(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(programs, OWN, "gcc")
    monkeypatch.setenv("CC", "none")
    monkeypatch.setenv("CFLAGS", "-DMINE")
    assert len(requirements()) == 1
    variables = dragoman_build.compiler_variables()
    assert "ziglang cc" in variables["CC"]
    assert variables["CFLAGS"] == "-DMINE"


@pytest.mark.usefixtures("programs")
def test_zig_is_not_required_without_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert requirements() == []
    assert dragoman_build.compiler_variables() == {}


@pytest.mark.usefixtures("programs")
def test_the_build_sees_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def build(*_: object, **__: object) -> str:
        seen.append(os.environ["CC"])
        return "a.whl"

    monkeypatch.setattr(build_meta, "build_wheel", build)
    monkeypatch.setattr(build_meta, "build_editable", build)
    for call in (dragoman_build.build_wheel, dragoman_build.build_editable):
        for name in ("CC", "LDSHARED", "CFLAGS"):
            monkeypatch.setenv(name, "none")  # so that all are restored
        assert call("dist") == "a.whl"
    assert len(seen) == 2
    assert all("ziglang cc" in command for command in seen)

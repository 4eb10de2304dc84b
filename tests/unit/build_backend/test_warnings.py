"""The C code compiles without a warning; tests/integration/wheels does it with Zig."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY

with (REPOSITORY / "pyproject.toml").open("rb") as file:
    MODULES: list[dict[str, Any]] = tomllib.load(file)["tool"]["setuptools"]["ext-modules"]
SOURCES = [
    (source, module["extra-compile-args"]) for module in MODULES for source in module["sources"]
]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
@pytest.mark.parametrize(("source", "flags"), SOURCES, ids=[source for source, _ in SOURCES])
def test_gcc_has_nothing_to_warn_of(source: str, flags: list[str], tmp_path: Path) -> None:
    strict = ("-Wall", "-Wextra", "-Werror", "-fPIC")
    command = ["gcc", *flags, *strict, "-c", source, "-o", str(tmp_path / "object")]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

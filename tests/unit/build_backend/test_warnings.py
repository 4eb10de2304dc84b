"""The C code compiles without a warning; tests/integration/wheels does it with Zig."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from libraries import extensions

from tests.conftest import REPOSITORY

LIBRARIES = extensions(platform.machine())
SOURCES = [
    pytest.param(source, one.extra_compile_args, id=f"{one.name.rpartition('.')[2]}-{source}")
    for one in LIBRARIES
    for source in one.sources
]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
@pytest.mark.parametrize(("source", "flags"), SOURCES)
def test_gcc_compiles_without_warnings(source: str, flags: list[str], tmp_path: Path) -> None:
    strict = ("-Wall", "-Wextra", "-Werror", "-fPIC")
    command = ["gcc", *flags, *strict, "-c", source, "-o", str(tmp_path / "object")]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

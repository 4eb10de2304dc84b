"""Every compiler keeps the sums of the int8 products in registers."""

from __future__ import annotations

import importlib.util
import platform
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import dragoman_build
import pytest

from tests.conftest import REPOSITORY

PRODUCTS = "serving/dragoman_serving/engine/compiled/products.c"
TILE_ROWS, VECTORS = 6, 4
HAS = {
    "gcc": shutil.which("gcc") is not None,
    "none": importlib.util.find_spec("ziglang") is not None,
}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the kernels are for x86-64")
@pytest.mark.parametrize("compiler", ["gcc", "none"])
def test_loops_over_a_tiles_rows_are_unrolled(
    compiler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not HAS[compiler]:
        pytest.skip("there is no such compiler")
    monkeypatch.setenv("CC", compiler)
    command = shlex.split(dragoman_build.compiler_variables().get("CC", compiler))
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        modules = tomllib.load(file)["tool"]["setuptools"]["ext-modules"]
    (flags,) = (one["extra-compile-args"] for one in modules if PRODUCTS in one["sources"])
    assembly = tmp_path / "products.s"
    subprocess.run([*command, *flags, "-S", PRODUCTS, "-o", assembly], cwd=REPOSITORY, check=True)
    assert assembly.read_text().count("vpdpbusd") == VECTORS * sum(range(1, TILE_ROWS + 1))

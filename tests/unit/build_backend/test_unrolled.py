"""Every compiler keeps the sums of the int8 products in registers."""

from __future__ import annotations

import importlib.util
import platform
import shlex
import shutil
import subprocess
from pathlib import Path

import dragoman_build
import pytest
from libraries import extensions

from tests.conftest import REPOSITORY

PRODUCTS = "serving/dragoman_serving/engine/compiled/products.c"
TILES = {
    "avx512vnni": ("vpdpbusd", 4 + 4 * sum(range(1, 7)) + 4 + 2 * sum(range(2, 9))),
    "avxvnni": ("vpdpbusd", 2 * (4 + sum(range(1, 7)) + 4 + 2 * (2 + 3) + 4 + 5 + 6)),
    "avx2": ("vpmaddubsw", 2 * (4 + 2 * sum(range(1, 3)) + 4 + 2 * 2 + 3 + 4)),
}
"""The multiply instruction, and how often it occurs in tiles of each number of rows.

A single row has four sums; tiles use as many vectors as there are registers. The tiles of
shortlists follow: they have one vector, with four sums for a single row, two for a few rows, else
one.
"""
HAS = {
    "gcc": shutil.which("gcc") is not None,
    "none": importlib.util.find_spec("ziglang") is not None,
}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the kernels are for x86-64")
@pytest.mark.parametrize(
    ("instruction_set", "compiler"),
    [
        *((instruction_set, "gcc") for instruction_set in TILES),
        ("avx512vnni", "none"),
        pytest.param("avxvnni", "none", marks=pytest.mark.thorough),
        pytest.param("avx2", "none", marks=pytest.mark.thorough),
    ],
)
def test_loops_over_a_tiles_rows_are_unrolled(
    instruction_set: str, compiler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not HAS[compiler]:
        pytest.skip("there is no such compiler")
    monkeypatch.setenv("CC", compiler)
    command = shlex.split(dragoman_build.compiler_variables().get("CC", compiler))
    (library,) = (
        extension
        for extension in extensions("x86_64")
        if extension.name.endswith(f"_{instruction_set}")
    )
    assembly = tmp_path / "products.s"
    subprocess.run(
        [*command, *library.extra_compile_args, "-S", PRODUCTS, "-o", assembly],
        cwd=REPOSITORY,
        check=True,
    )
    instruction, count = TILES[instruction_set]
    assert assembly.read_text().count(instruction) == count

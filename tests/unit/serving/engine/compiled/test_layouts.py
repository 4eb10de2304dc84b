"""Every structure that Python shares with the compiled code has the same fields as in C."""

from __future__ import annotations

import ctypes
import itertools
import shutil
from pathlib import Path

import pytest
from dragoman_serving.engine.compiled import library

from tests.conftest import REPOSITORY
from tests.layouts import Layout, Structure, compiled_layouts, layout_of
from tests.unit.serving.engine.compiled.test_products import Codes

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")

COMPILED = REPOSITORY / "serving/dragoman_serving/engine/compiled"
HEADERS = [COMPILED / f"{name}.h" for name in ("model", "products", "transformer", "search_data")]
STRUCTURES: dict[str, Structure] = {
    **{
        name: structure
        for name, structure in vars(library).items()
        if isinstance(structure, type) and issubclass(structure, ctypes.Structure)
    },
    "Token": library.TOKEN,
    "Finished": library.FINISHED,
    "Codes": Codes,
}


@pytest.fixture(scope="module")
def in_c(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Layout]:
    folder: Path = tmp_path_factory.mktemp("layouts")
    return compiled_layouts(STRUCTURES, HEADERS, folder)


@pytest.mark.parametrize("name", STRUCTURES)
def test_fields_are_those_of_the_header(name: str, in_c: dict[str, Layout]) -> None:
    assert layout_of(STRUCTURES[name]) == in_c[name]


def test_a_swapped_pair_of_fields_is_noticed(in_c: dict[str, Layout]) -> None:
    fields = list(library.Rows._fields_)
    for index, (first, second) in enumerate(itertools.pairwise(fields)):
        swapped = [*fields[:index], second, first, *fields[index + 2 :]]
        structure = type("Rows", (ctypes.Structure,), {"_fields_": swapped})
        assert ctypes.sizeof(structure) == ctypes.sizeof(library.Rows)
        assert layout_of(structure) != in_c["Rows"]

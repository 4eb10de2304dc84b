"""The table of allowed imports in docs/architecture.md, compared with the code."""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

ROOTS = ("client/src", "export", "gateway", "load_test/src", "serving", "training", ".")
"""Folders that contain the packages."""
PACKAGES = (
    *("dragoman", "dragoman_client", "dragoman_documents", "dragoman_export", "dragoman_gateway"),
    *("dragoman_load_test", "dragoman_options", "dragoman_serving", "dragoman_training", "lab"),
)
EVERYTHING = "everything"
Imports = dict[str, set[str]]
"""Other modules or packages, by the name of the one that imports them."""


@cache
def modules() -> dict[str, Path]:
    """Every module of the product by its dotted name."""
    paths = {}
    for root in ROOTS:
        for package in PACKAGES:
            for path in (REPOSITORY / root / package).rglob("*.py"):
                parts = path.relative_to(REPOSITORY / root).with_suffix("").parts
                paths[".".join(parts).removesuffix(".__init__")] = path
    return paths


def package_of(module: str) -> str:
    return module if modules()[module].name == "__init__.py" else module.rpartition(".")[0]


def imported(tree: ast.AST, at_import_time: bool = False) -> Iterator[str]:
    """Dotted names that code imports; those inside functions only if not `at_import_time`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "relative imports are not used here"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif at_import_time and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        elif at_import_time and isinstance(node, ast.If) and _is_never_run(node.test):
            yield from imported(ast.Module(node.orelse, []), at_import_time)
        else:
            yield from imported(node, at_import_time)


def _is_never_run(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def ours(names: Iterator[str]) -> set[str]:
    """Modules of the product that the imported names are, or belong to."""
    both = ((name, name.rpartition(".")[0]) for name in names)
    known = (next((name for name in pair if name in modules()), None) for pair in both)
    return {name for name in known if name is not None}


@cache
def imports() -> tuple[Imports, Imports]:
    """The modules that each module imports, and those at import time."""
    every, at_import_time = {}, {}
    gc.disable()  # the nodes of a tree are many, and live no longer than it
    try:
        for name, path in modules().items():
            tree = ast.parse(path.read_text("utf-8"))
            every[name] = ours(imported(tree)) - {name}
            at_import_time[name] = ours(imported(tree, at_import_time=True)) - {name}
    finally:
        gc.enable()
    return every, at_import_time


@cache
def package_imports() -> Imports:
    """The packages that each package imports."""
    by_package: Imports = {package_of(name): set() for name in modules()}
    for name, others in imports()[0].items():
        by_package[package_of(name)] |= {package_of(other) for other in others} - {package_of(name)}
    return by_package


@cache
def table() -> dict[str, set[str]]:
    """The packages that each package may import, by docs/architecture.md."""
    page = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("\n## Who imports whom\n")[2].partition("\n## ")[0]
    cells = [re.findall(r"[^|]+", row) for row in re.findall(r"^\|(?= `).*", section, re.M)]
    rows = {cell.strip().strip("`"): _names(last) for cell, _, last in cells}
    assert len(rows) == len(cells), "a package has two rows"
    return {name: {_full(other, name, rows) for other in others} for name, others in rows.items()}


def _names(cell: str) -> list[str]:
    return [EVERYTHING] if EVERYTHING in cell else re.findall(r"`([^`]+)`", cell)


def _full(name: str, of: str, rows: dict[str, list[str]]) -> str:
    """A name as in the table, without the first word if both are of the same part."""
    longer = f"{of.partition('.')[0]}.{name}"
    return longer if longer in rows else name


def test_the_table_has_every_package_once_and_no_other() -> None:
    holding = {package_of(name) for name, path in modules().items() if _is_code(path)}
    apart = {name for name in holding if name.partition(".")[0] != "lab"}
    assert apart | {"lab"} == set(table())


def _is_code(path: Path) -> bool:
    return path.name != "__init__.py" or path.read_text("utf-8").count("\n") > 5


def test_packages_import_only_what_the_table_allows() -> None:
    """One test: each process that has a part of several ones would parse every module."""
    table_of_others = {name: of for name, of in table().items() if of != {EVERYTHING}}
    assert {name: package_imports()[name] for name in table_of_others} == table_of_others


def test_there_are_no_circular_imports() -> None:
    for graph in (imports()[0], package_imports()):
        TopologicalSorter(graph).prepare()


def test_a_circular_import_is_detected() -> None:
    """Three real modules, with an import from the lowest to the highest one."""
    low, middle = "dragoman.kernel.errors", "dragoman.kernel.settings"
    graph = imports()[0]
    high = next(name for name in graph if middle in graph[name] and name != low)
    more = ours(imported(ast.parse(f"def f():\n from {high} import x")))
    assert more == {high}
    with pytest.raises(CycleError):
        TopologicalSorter({**graph, low: graph[low] | more}).prepare()


def test_the_command_line_imports_other_parts_only_when_a_command_runs() -> None:
    for name, others in imports()[1].items():
        if name.partition(".")[0] == "dragoman":
            assert {other.partition(".")[0] for other in others} <= {"dragoman"}, name


def test_the_check_finds_imports_everywhere() -> None:
    kept_out = "def f():\n from dragoman_serving.x import y\nif TYPE_CHECKING:\n import numpy\n"
    tree = ast.parse(f"if a:\n import torch.nn\n{kept_out}else:\n import onnx")
    assert set(imported(tree)) == {"numpy", "onnx", "torch.nn", "dragoman_serving.x.y"}
    assert set(imported(tree, at_import_time=True)) == {"onnx", "torch.nn"}


def loaded(code: str, *arguments: object) -> set[str]:
    """Modules that a new process has loaded when it has run the code."""
    command = [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
    )
    return set(done.stdout.split())


def test_serving_and_clients_load_without_what_export_needs() -> None:
    modules = (
        *("dragoman.cli", "dragoman_client", "dragoman_load_test.load_test"),
        *("dragoman_gateway.serving", "dragoman_serving.service.server"),
        "dragoman_serving.launch.launcher",
    )
    assert not loaded(f"import {', '.join(modules)}") & {"torch", "onnx"}


def test_an_engine_that_only_translates_imports_no_onnx_runtime(random_bundle: Path) -> None:
    code = (
        "import pathlib, dragoman_serving.service.server\n"
        "from dragoman_serving.engine.settings import EngineSettings\n"
        "from dragoman_serving.translation.translator import Translator\n"
        "translator = Translator(pathlib.Path(sys.argv[1]), EngineSettings(runtime='native'))\n"
        "translator.translate(['one two'], {'target_language': 'de'})\n"
        "translator.close()"
    )
    assert not loaded(code, random_bundle) & {"onnxruntime", "onnx", "torch"}


def test_modules_have_no_forbidden_names() -> None:
    names = {name.rpartition(".")[2] for name in modules()}
    assert not names & {"utils", "helpers", "common", "manager"}


def test_no_two_files_of_a_part_have_the_same_name() -> None:
    numbers = Counter(
        (name.partition(".")[0], path.stem)
        for name, path in modules().items()
        if not path.stem.startswith("__")
    )
    assert max(numbers.values()) == 1, numbers.most_common(3)

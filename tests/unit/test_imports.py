"""The table of who may import whom, in DESIGN.md and docs/architecture.md, held true."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

CLIENT = {"dragoman_client", "dragoman_load_test"}
OURS = {
    "dragoman",
    "dragoman_training",
    "dragoman_export",
    "dragoman_serving",
    "benchmarks",
    "studies",
    "tests",
    *CLIENT,
}
MAY_IMPORT = {
    "dragoman": set[str](),
    "dragoman_training": {"dragoman"},
    "dragoman_export": {"dragoman", "dragoman_training", "dragoman_serving"},
    "dragoman_serving": {"dragoman"},
    "client": set[str](),
}
FOLDERS = {
    "client": "client/src",
    "dragoman_export": "export/dragoman_export",
    "dragoman_serving": "serving/dragoman_serving",
    "dragoman_training": "training/dragoman_training",
}


def imported(tree: ast.AST, at_import_time: bool) -> set[str]:
    """Top-level packages that code imports; inside functions only if asked for."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
        elif at_import_time and _runs_later_or_never(node):
            continue
        else:
            found |= imported(node, at_import_time)
    return found


def _runs_later_or_never(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_parts_import_only_what_the_table_allows(part: str) -> None:
    files = list((REPOSITORY / FOLDERS.get(part, part)).rglob("*.py"))
    assert files
    own = CLIENT if part == "client" else {part}
    for path in files:
        # The command line may import any part, but only when a command is run.
        tree = ast.parse(path.read_text(encoding="utf-8"))
        wrong = (imported(tree, part == "dragoman") & OURS) - MAY_IMPORT[part] - own
        assert not wrong, f"{path.relative_to(REPOSITORY)} imports {wrong}"


def test_a_package_of_the_engine_imports_only_those_before_it() -> None:
    order = ["", "search", "compiled", "runtimes", "batching"]
    root = REPOSITORY / "serving/dragoman_serving/engine"
    for path in root.rglob("*.py"):
        own = path.relative_to(root).parts[0] if path.parent != root else ""
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in (node.module, *(f"{node.module}.{one.name}" for one in node.names)):
                    other = name.removeprefix("dragoman_serving.engine.").partition(".")[0]
                    if other in order and name.startswith("dragoman_serving.engine."):
                        assert order.index(other) <= order.index(own), f"{path}: {name}"


def test_the_client_needs_nothing_of_the_load_test() -> None:
    for path in (REPOSITORY / "client/src/dragoman_client").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert not imported(tree, at_import_time=False) & {"dragoman_load_test"}, path


def test_the_check_sees_imports_wherever_they_stand() -> None:
    kept_out = "if TYPE_CHECKING:\n import numpy\ndef f():\n from dragoman_serving.x import y\n"
    tree = ast.parse(f"if a:\n import torch.nn\n{kept_out}")
    assert imported(tree, at_import_time=False) == {"numpy", "torch", "dragoman_serving"}
    assert imported(tree, at_import_time=True) == {"torch"}


@pytest.mark.parametrize(
    "modules",
    [
        "dragoman.cli",
        "dragoman_serving.service.server",
        "dragoman_serving.launch.launcher",
        "dragoman_client",
    ],
)
def test_serving_and_clients_load_without_what_export_needs(modules: str) -> None:
    code = f"import sys, {modules}; print(bool({{'torch', 'onnx'}} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY
    )
    assert done.stdout.strip() == "False"


def test_modules_have_no_forbidden_names() -> None:
    forbidden = {"utils", "helpers", "common", "manager"}
    for part in MAY_IMPORT:
        names = {path.stem for path in Path(REPOSITORY / FOLDERS.get(part, part)).rglob("*.py")}
        assert not names & forbidden

"""The folders of unit tests, and of the client's tests, mirror the packages of the product."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

TESTS = REPOSITORY / "tests" / "unit"
PARTS = {
    "build_backend": "build_backend",
    "deploy": "deploy",
    "dragoman": "dragoman",
    "export": "export/dragoman_export",
    "gateway": "gateway/dragoman_gateway",
    "serving": "serving/dragoman_serving",
    "training": "training/dragoman_training",
}
CLIENT_TESTS = REPOSITORY / "client" / "tests"
CLIENT_PARTS = {
    "client": "client/src/dragoman_client",
    "documents": "client/src/dragoman_documents",
    "options": "client/src/dragoman_options",
}
# Tests of programs that are not in the product.
OTHERS = {"campaigns", "lab"}


def misplaced(tests: Path, parts: dict[str, str]) -> set[str]:
    """Folders with tests that are named as no package of these parts."""

    def is_package(part: str = ".", *packages: str) -> bool:
        return part in parts and REPOSITORY.joinpath(parts[part], *packages).is_dir()

    folders = {file.parent.relative_to(tests) for file in tests.glob("**/test_*.py")}
    return {str(folder) for folder in folders if not is_package(*folder.parts)}


def test_every_folder_of_tests_is_named_as_the_package_that_it_tests() -> None:
    apart = {name for name in misplaced(TESTS, PARTS) if name.partition("/")[0] not in OTHERS}
    assert apart == {"."}  # tests of several parts
    assert misplaced(CLIENT_TESTS, CLIENT_PARTS) == set()


def test_the_tests_of_a_group_run_in_one_process(request: pytest.FixtureRequest) -> None:
    """Otherwise each process starts every server. xdist adds the group to the test's id."""
    if request.config.getoption("loadgroup", False):
        assert "@" in request.node.nodeid


def test_the_names_of_tests_are_short(request: pytest.FixtureRequest) -> None:
    """A parameter of megabytes is not part of its test's name, which every process gets."""
    assert max(len(item.nodeid) for item in request.session.items) < 1000

"""The folders of unit tests mirror the packages of the product."""

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
# Tests of programs that are not in the product.
OTHERS = {"campaigns", "lab"}


def is_named_as_a_package(folder: Path) -> bool:
    part, *packages = folder.parts
    return part in PARTS and REPOSITORY.joinpath(PARTS[part], *packages).is_dir()


def test_every_folder_of_tests_is_named_as_the_package_that_it_tests() -> None:
    folders = {file.parent.relative_to(TESTS) for file in TESTS.glob("*/**/test_*.py")}
    assert not [
        str(folder)
        for folder in folders
        if folder.parts[0] not in OTHERS and not is_named_as_a_package(folder)
    ]


def test_the_tests_of_a_group_run_in_one_process(request: pytest.FixtureRequest) -> None:
    """Otherwise each process starts every server. xdist adds the group to the test's id."""
    if request.config.getoption("loadgroup", False):
        assert "@" in request.node.nodeid

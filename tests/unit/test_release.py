"""One version for everything that is released together."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import dragoman_client
from dragoman_client.version import series

import dragoman
from tests.conftest import REPOSITORY


def project(path: str) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((REPOSITORY / path).read_text())["project"]
    return table


def test_the_distributions_have_one_version() -> None:
    others = ("load_test/pyproject.toml", "model_repository/pyproject.toml")
    versions = {project(path)["version"] for path in others}
    assert versions == {dragoman.__version__} == {dragoman_client.__version__}


def test_the_server_requires_a_client_of_its_series() -> None:
    extras = project("pyproject.toml")["optional-dependencies"]
    required = [
        requirement
        for requirements in (*extras.values(), project("load_test/pyproject.toml")["dependencies"])
        for requirement in requirements
        if requirement.startswith("dragoman-")
    ]
    assert required
    for requirement in required:
        assert re.search(rf">={re.escape(series(dragoman.__version__))},<", requirement)


def test_the_changelog_has_the_release() -> None:
    changelog = (REPOSITORY / "CHANGELOG.md").read_text()
    assert re.search(rf"^## \[{re.escape(dragoman.__version__)}\] - 20\d\d-", changelog, re.M)
    assert "\n## [Unreleased]\n" in changelog

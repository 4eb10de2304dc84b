"""The files that GitHub reads, compared with its schemas."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY

GITHUB = REPOSITORY / ".github"


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        ("github-workflows", "workflows/*.yml"),
        ("github-issue-forms", "ISSUE_TEMPLATE/[!c]*.yml"),
        ("github-issue-config", "ISSUE_TEMPLATE/config.yml"),
    ],
)
def test_github_accepts_the_files(schema: str, pattern: str) -> None:
    files = [str(file) for file in GITHUB.glob(pattern)]
    assert files
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    checked = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout

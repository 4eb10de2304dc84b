"""The files that GitHub reads, compared with its schemas."""

from __future__ import annotations

import pytest

from tests.conftest import REPOSITORY

GITHUB = REPOSITORY / ".github"


def test_github_accepts_the_files(capsys: pytest.CaptureFixture[str]) -> None:
    from check_jsonschema import main

    for schema, pattern in (
        ("github-workflows", "workflows/*.yml"),
        ("github-issue-forms", "ISSUE_TEMPLATE/[!c]*.yml"),
        ("github-issue-config", "ISSUE_TEMPLATE/config.yml"),
    ):
        files = [str(file) for file in GITHUB.glob(pattern)]
        assert files
        words = ["--builtin-schema", f"vendor.{schema}", *files]
        assert main(words, standalone_mode=False) == 0, capsys.readouterr().out

"""Tests whose npm packages are missing are skipped, but not in CI."""

from __future__ import annotations

import pytest

from tests import npm_packages
from tests.conftest import REPOSITORY


def test_tests_without_packages_are_skipped_or_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRAGOMAN_CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no browser: run"):
        npm_packages.skip_without("browser")
    monkeypatch.setenv("DRAGOMAN_CI", "1")
    with pytest.raises(pytest.fail.Exception, match="no browser: run"):
        npm_packages.skip_without("browser")


def test_ci_skips_none_of_them() -> None:
    assert "export DRAGOMAN_CI=1\n" in (REPOSITORY / ".ci" / "run").read_text("utf-8")

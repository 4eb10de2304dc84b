"""Short names for the parameters of all tests."""

from __future__ import annotations

import pytest

MOST_CHARACTERS = 60
"""Of a parameter in a test's name; texts of megabytes would otherwise be part of every report."""


def pytest_make_parametrize_id(
    config: pytest.Config,  # noqa: ARG001
    val: object,
    argname: str,  # noqa: ARG001
) -> str | None:
    """Name a long text by its beginning; pytest numbers equal names."""
    if isinstance(val, bytes):
        val = val.decode("ascii", "backslashreplace")
    if isinstance(val, str) and len(val) > MOST_CHARACTERS:
        return f"{val[:MOST_CHARACTERS]}..."
    return None

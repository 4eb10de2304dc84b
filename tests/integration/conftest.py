"""The server and the gateway that integration tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import Served, serving


@pytest.fixture(scope="session")
def shipped() -> Iterator[Served]:
    """The shipped model, served with default options."""
    with serving() as served:
        yield served

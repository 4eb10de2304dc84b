"""The own API before a stand-in of Triton."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.gateway.asgi import Application


@pytest.fixture(scope="package")
def app() -> Iterator[Application]:
    """Open to everybody."""
    with Application() as application:
        yield application

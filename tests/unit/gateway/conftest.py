"""The gateway's application before a stand-in of Triton, for the tests of every protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.gateway.asgi import Application


@pytest.fixture(scope="module")
def app() -> Iterator[Application]:
    """Open to everybody."""
    with Application() as application:
        yield application

"""The gateway's application with a stand-in for Triton, for the tests of every protocol."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.unit.gateway.asgi import Application


@pytest.fixture(scope="module")
def app() -> Iterator[Application]:
    """An application without access control."""
    with Application() as application:
        yield application


@pytest.fixture
def stuck() -> Iterator[Application]:
    """An application that translates nothing before the test ends."""
    ended = threading.Event()

    def wait(text: str) -> str:
        ended.wait(30)
        return text

    with Application(wait) as app:
        yield app
        ended.set()

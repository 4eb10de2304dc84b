"""What all tests share, those of the client and of the load test too."""

from __future__ import annotations

import gc
import os
import signal

import hypothesis
import pytest

pytest_plugins = ["server_fixtures"]

# How long an example takes depends on the machine's other load. In CI, examples are the same each
# time: what a random search finds in old code must not refuse a change.
hypothesis.settings.register_profile(
    "dragoman", deadline=None, derandomize="DRAGOMAN_CI" in os.environ
)
hypothesis.settings.load_profile("dragoman")

# Shells let commands in the background ignore it, and so would each process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
HANDLERS = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
"""Those of the process that runs the tests; a command that a test calls may replace them."""

MOST_CHARACTERS = 60
"""Of a parameter in a test's name; texts of megabytes would otherwise be part of every report."""


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The event loop of tests that are coroutines."""
    return "asyncio"


def pytest_collection() -> None:
    """Import without the garbage collector: what is imported stays, and takes a quarter less."""
    gc.disable()


def pytest_collection_finish() -> None:
    """From now on collect garbage, but not among the objects of the collected tests."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Give the next test the usual handlers of signals."""
    for number, handler in HANDLERS.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Collect garbage once, as pytest does five times after this, and Python once more."""
    gc.collect()
    gc.freeze()


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

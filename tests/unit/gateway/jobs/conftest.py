"""The end of the readers that the tests of a module share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.texts.readers import Readers

from tests.unit.gateway.jobs.test_jobs import IDLE


@pytest.fixture(scope="module", autouse=True)
async def end_readers() -> AsyncIterator[None]:
    """End them after the tests, which run in the event loop of this fixture."""
    yield
    readers = Readers(GatewaySettings())
    readers._idle = IDLE
    await readers.close()

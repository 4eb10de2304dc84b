"""gRPC requests that are abandoned early: only large ones are cancelled."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from dragoman_client import AsyncTranslator, DeadlineExceeded, Translator
from dragoman_client.testing import translated
from faulty_servers import SlowGrpc

WAIT_S = 30.0
TIMEOUT_S = 0.2
GRACE_S = 60.0
LARGE = "abc " * 6000


@pytest.fixture(autouse=True)
def much_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Move gRPC's own deadline away, so that a busy machine does not reach it."""
    monkeypatch.setattr("dragoman_client.transports.grpc_transport.DEADLINE_GRACE_S", GRACE_S)


@pytest.mark.parametrize(
    ("text", "is_cancelled"), [("abc", False), (LARGE, True)], ids=["small", "large"]
)
async def test_a_cancelled_task(slow: tuple[str, SlowGrpc], text: str, is_cancelled: bool) -> None:
    """The task ends immediately; closing the translator waits for requests that continue."""
    url, service = slow
    async with AsyncTranslator(url) as translator:
        task = asyncio.create_task(translator.translate(text))
        await asyncio.to_thread(service.came.wait, WAIT_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        asyncio.get_running_loop().call_later(0.3, service.go_on.set)
    service.go_on.set()
    assert service.over.wait(WAIT_S)
    assert service.was_cancelled is is_cancelled


@pytest.mark.parametrize("text", ["abc", LARGE], ids=["small", "large"])
async def test_a_timeout_does_not_cancel(slow: tuple[str, SlowGrpc], text: str) -> None:
    """The error is raised in time; gRPC's own deadline, which would cancel, is later."""
    url, service = slow
    async with AsyncTranslator(url, timeout_s=TIMEOUT_S, retries=0) as translator:
        begin_s = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            await translator.translate(text)
        assert TIMEOUT_S <= time.monotonic() - begin_s < TIMEOUT_S + GRACE_S
        asyncio.get_running_loop().call_later(0.5, service.go_on.set)
    assert service.over.wait(WAIT_S)
    assert service.was_cancelled is False


def test_a_timeout_of_the_blocking_client_does_not_cancel(slow: tuple[str, SlowGrpc]) -> None:
    """The client accepts an answer that comes soon after the timeout."""
    url, service = slow
    threading.Timer(TIMEOUT_S + 0.5, service.go_on.set).start()
    with Translator(url, timeout_s=TIMEOUT_S, retries=0) as translator:
        assert translator.translate("abc").text == translated("abc")
    assert service.was_cancelled is False

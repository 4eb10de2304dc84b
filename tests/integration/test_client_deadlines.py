"""A deadline that the server notices; the client raises `DeadlineExceeded`, not a refusal."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from dragoman_client import DeadlineExceeded

from tests.servers import WAIT_S, Served, serving
from tests.waiting import hang

TEXT = "I would like a cup of coffee."
TRANSLATION = "Ich möchte eine Tasse Kaffee."


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A server whose engine may be stopped for a while. Nothing monitors it here."""
    with serving() as server:
        yield server


@pytest.fixture(params=["answers", "hangs"])
def engine(request: pytest.FixtureRequest, served: Served) -> Iterator[str]:
    """What the engine does: it notices the deadline itself, or leaves that to the relay."""
    assert served.server.engine
    if request.param == "hangs":
        hang(served.server.engine.pid)
    yield request.param
    os.kill(served.server.engine.pid, signal.SIGCONT)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("method", ["translate", "parts", "score"])
async def test_the_servers_deadline_is_not_a_refusal(
    served: Served,
    engine: str,
    either: Callable[..., Any],
    method: str,
    protocol: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client itself waits for longer than the server does."""
    for wire in ("http_wire", "grpc_wire"):
        monkeypatch.setattr(f"dragoman_client.transports.{wire}.microseconds", lambda _timeout_s: 1)
    texts = (TEXT, TRANSLATION) if method == "score" else (TEXT,)
    url = getattr(served.server, f"{protocol}_url")
    async with either(url, timeout_s=WAIT_S, retries=0) as client:
        with pytest.raises(DeadlineExceeded, match=r"^the deadline passed") as caught:
            await getattr(client, method)(*texts)
    assert ("the engine did not answer" in str(caught.value)) is (engine == "hangs")

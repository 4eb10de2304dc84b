"""A deadline that the server notices; the client raises `DeadlineExceeded`, not a refusal."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest
from dragoman_client import AsyncTranslator, DeadlineExceeded, Translator

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


def ask(url: str, method: str, asynchronously: bool) -> None:
    """Wait for the complete response, for longer than the server does."""
    texts = (TEXT, TRANSLATION) if method == "score" else (TEXT,)

    async def run() -> None:
        async with AsyncTranslator(url, timeout_s=WAIT_S, retries=0) as translator:
            answer = getattr(translator, method)(*texts)
            if method == "translate_stream":
                assert [part async for part in answer]
            else:
                await answer

    if asynchronously:
        asyncio.run(run())
        return
    with Translator(url, timeout_s=WAIT_S, retries=0) as translator:
        answer = getattr(translator, method)(*texts)
        if method == "translate_stream":
            assert list(answer)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("asynchronously", [False, True])
@pytest.mark.parametrize("method", ["translate", "translate_stream", "score"])
def test_the_servers_deadline_is_not_a_refusal(
    served: Served,
    engine: str,
    method: str,
    asynchronously: bool,
    protocol: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for wire in ("http_wire", "grpc_wire"):
        monkeypatch.setattr(f"dragoman_client.transports.{wire}.microseconds", lambda _timeout_s: 1)
    url = getattr(served.server, f"{protocol}_url")
    with pytest.raises(DeadlineExceeded, match=r"^the deadline passed") as caught:
        ask(url, method, asynchronously)
    assert ("the engine did not answer" in str(caught.value)) is (engine == "hangs")

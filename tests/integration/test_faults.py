"""Faults of a running server: hanging and dying processes, leftovers, and what clients see."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator

import pytest

from tests.servers import Served, serving
from tests.waiting import hang

TIMEOUT_US = 500_000
GONE_S = 100
"""A guard: without keep-alive the test would take two hours."""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A server whose engine may be stopped for a while. Nothing monitors it here."""
    with serving() as server:
        yield server


def test_late_answers_of_an_engine_that_hung_are_dropped(served: Served) -> None:
    assert served.server.engine
    hang(served.server.engine.pid)
    texts = [f"I have {number} books." for number in range(2, 40)]
    _, answer = served.generate({"text_input": texts, "timeout": TIMEOUT_US})
    assert "the deadline passed" in answer["error"]
    os.kill(served.server.engine.pid, signal.SIGCONT)
    assert served.grpc.translate(texts)[0].text == "Ich habe 2 Bücher."


def test_the_connection_of_a_vanished_client_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dragoman_serving.launch.triton_process._KEEPALIVE_MS", 1000)
    empty_settings = bytes(3) + b"\4" + bytes(5)
    with serving() as served, socket.socket() as peer:
        peer.connect(("127.0.0.1", served.server.ports.grpc))
        peer.settimeout(GONE_S)
        peer.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + empty_settings)
        while peer.recv(1 << 16):  # pings, which it does not answer
            pass

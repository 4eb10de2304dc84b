"""The figures that are sent to Triton."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

import pytest
from dragoman_serving.engine.batching.statistics import Counts
from dragoman_serving.service import metrics
from dragoman_serving.service.connection import Connection
from dragoman_serving.service.frames import FrameSplitter, Kind
from dragoman_serving.service.metrics import FigureReporter
from dragoman_serving.translation.translator import Load, Translator

from tests.relay_frames import unpack_figures

EVERY_S = 0.001
PERIODS = 200
"""In which many frames would be sent."""
WAIT_S = 60


class Busy:
    """A translator that completes a sentence each time it is asked for its counts."""

    load = Load(waiting=0, rows=1, most_rows=2, cache_bytes=3)

    def __init__(self) -> None:
        self._counts = Counts()

    @property
    def counts(self) -> Counts:
        self._counts.completed += 1
        return replace(self._counts)

    @property
    def completed(self) -> int:
        return self._counts.completed

    def complete(self, sentences: int) -> None:
        self._counts.completed += sentences


@pytest.fixture
def ends() -> Iterator[tuple[Connection, socket.socket]]:
    near, far = socket.socketpair()
    far.settimeout(WAIT_S)
    connection = Connection(near)
    yield connection, far
    far.close()
    connection.close()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(EVERY_S)


def sentences_in(frames: Iterator[tuple[Kind, bytes]]) -> list[float]:
    """The growth of the sentences in each frame."""
    bodies = [body for kind, body in frames if kind is Kind.FIGURES]
    name = "dragoman_sentences_total"
    return [f.value for body in bodies for f in unpack_figures(body) if f.name == name]


def test_who_does_not_read_is_sent_no_figures_and_loses_no_count(
    ends: tuple[Connection, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each frame holds one more sentence, so that they count the frames too."""
    monkeypatch.setattr(metrics, "_EVERY_S", EVERY_S)
    connection, far = ends
    translator = Busy()
    reporter = FigureReporter(cast(Translator, translator), connection)
    wait_for(lambda: connection.is_behind)
    packed = translator.completed
    time.sleep(PERIODS * EVERY_S)
    assert translator.completed == packed
    translator.complete(1000)
    found: list[float] = []
    splitter = FrameSplitter()
    while sum(found) < packed + 1000:
        found += sentences_in(splitter.feed(far.recv(1 << 16)))
    assert max(found) == 1001
    reporter.close()
    connection.close()
    while received := far.recv(1 << 16):
        found += sentences_in(splitter.feed(received))
    assert sum(found) == translator.completed

"""Measurement of one load: counted windows, loads that are stopped early, and notes."""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Sequence

import pytest
from dragoman_client import InvalidRequest
from dragoman_load_test import measurement
from dragoman_load_test.loops import GIVEN_UP, ClosedLoop, Load, OpenLoop
from dragoman_load_test.measurement import Progress, Schedule, measure
from dragoman_load_test.requests.senders import Answered, Send
from dragoman_load_test.requests.target import Target
from dragoman_load_test.results import Point

pytestmark = pytest.mark.usefixtures("virtual_time")

SCHEDULE = Schedule(warm_up_s=0.05, window_s=0.1, windows=3, most_windows=6)


def measured(
    monkeypatch: pytest.MonkeyPatch,
    load: Load,
    send: Send,
    schedule: Schedule = SCHEDULE,
    url: str = "grpc://localhost",
) -> tuple[Point, list[Progress]]:
    """Measure a load whose requests are sent by `send`; return the results and the progress."""

    @contextlib.asynccontextmanager
    async def open_senders(
        _target: Target, _batches: Sequence[Sequence[str]], _at_once: int | None
    ) -> AsyncIterator[list[Send]]:
        yield [send]

    monkeypatch.setattr(measurement, "open_senders", open_senders)
    reports: list[Progress] = []
    point = measure(Target.of(url), ["a"], 1, load, schedule, None, reports.append)
    return asyncio.run(point), reports


async def soon() -> Answered:
    """Answer after a time that divides no window, since two events at one time have no order."""
    await asyncio.sleep(0.0053)
    return Answered(1, 2)


def test_windows_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is reported for each window; requests and answers are counted once."""
    point, reports = measured(monkeypatch, ClosedLoop(4), soon)
    assert 3 <= len(reports) <= 6
    assert len(point.windows) == 3
    assert point.closed
    assert 0 < point.sentences_per_s.mean < 4 / 0.005
    assert sum(len(w.histogram) for w in point.windows) == point.requests
    assert point.tokens_per_s == pytest.approx(2 * point.sentences_per_s.mean)


def test_windows_that_do_not_agree_are_followed_by_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the last windows are counted, unless that would hide errors."""
    begun: list[float] = []

    def is_early() -> bool:
        begun.append(time.perf_counter())
        return begun[-1] - begun[0] < 0.3

    async def warming_up() -> Answered:
        await asyncio.sleep(0.03 if is_early() else 0.003)
        return Answered(1, 1)

    point, reports = measured(monkeypatch, ClosedLoop(4), warming_up)
    assert len(reports) > 3
    assert len(point.windows) == 3
    assert any("did not agree with each other and are not counted" in n for n in point.notes)
    begun.clear()

    async def failing_first() -> Answered:
        if is_early():
            raise InvalidRequest("not yet")
        return await soon()

    point, reports = measured(monkeypatch, ClosedLoop(4), failing_first)
    assert len(point.windows) == len(reports) > 3
    assert point.errors["InvalidRequest"] > 0


def test_a_load_without_an_answer_has_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """The throughput of a load without an answer is zero."""

    async def refused() -> Answered:
        raise InvalidRequest("no")

    # Notes about the generator itself depend on how busy the machine is.
    monkeypatch.setattr(measurement, "limits_found", lambda *_: [])
    point, _ = measured(monkeypatch, ClosedLoop(2), refused)
    assert point.notes == ("no request was answered",)
    assert point.sentences_per_s.mean == 0


@pytest.mark.parametrize(("url", "waits"), [("grpc://a", False), ("http://a", True)])
def test_a_load_with_a_growing_backlog_is_stopped(
    monkeypatch: pytest.MonkeyPatch, url: str, waits: bool
) -> None:
    """Over HTTP the test waits for requests in flight, since the server would continue them."""

    async def slow() -> Answered:
        await asyncio.sleep(1.0)
        return Answered(1, 1)

    schedule = dataclasses.replace(SCHEDULE, windows=20, most_windows=20, give_up=True)
    point, reports = measured(monkeypatch, OpenLoop(300, "constant"), slow, schedule, url)
    assert len(reports) < 20
    assert "the backlog grew" in " ".join(point.notes)
    assert (GIVEN_UP in point.errors) is not waits


def test_a_load_with_slow_answers_is_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many requests are in flight, but their number does not grow."""

    async def slow() -> Answered:
        await asyncio.sleep(0.3)
        return Answered(1, 1)

    schedule = dataclasses.replace(SCHEDULE, warm_up_s=0.6, window_s=0.4, windows=4, give_up=True)
    point, reports = measured(monkeypatch, OpenLoop(200, "constant"), slow, schedule)
    assert len(reports) == 4
    assert not point.errors
    assert point.windows[0].in_flight > 40

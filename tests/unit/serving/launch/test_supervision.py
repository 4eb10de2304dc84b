"""When a server that ended is restarted."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from dragoman_serving.launch import supervision
from dragoman_serving.launch.backoff import Backoff
from dragoman_serving.launch.engine_process import StartFailed
from dragoman_serving.launch.launcher import Ended
from dragoman_serving.launch.ports import PortInUse
from dragoman_serving.launch.serve_options import ServeOptions
from dragoman_serving.launch.supervision import keep_serving
from dragoman_serving.launch.triton_process import TritonCrashed

from dragoman.kernel.errors import DragomanError, UsageError

CRASH = Ended("Triton ended by itself with code -11")
OPTIONS = ServeOptions(Path("nowhere"))


class Over(Exception):
    """Ends a test."""


class Server:
    """A server whose starts and ends are given."""

    http_url, grpc_url = "http://a", "grpc://b"

    def __init__(self, events: list[Any]) -> None:
        self.events = events
        self.calls: list[str] = []
        self.said: list[str] = []

    def __call__(self, _options: ServeOptions) -> Server:
        return self

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.calls.append("stop")

    def say(self, message: str) -> None:
        self.said.append(message)

    def stop(self, drain: bool = True) -> None:
        self.calls.append(f"stop, drain {drain}")

    def end_triton(self) -> None:
        self.calls.append("end")

    def _next(self) -> Any:
        event = self.events.pop(0) if self.events else Over()
        if isinstance(event, Exception):
            raise event
        return event

    def wait(self, _follow_bundle: bool, _look: object) -> Ended:
        ended: Ended = self._next()
        return ended

    def start_again(self, anew: bool) -> None:
        self.calls.append(f"start, anew {anew}")
        self._next()


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    delays_s: list[float] = []
    monkeypatch.setattr(time, "sleep", delays_s.append)
    return delays_s


def run(server: Server, monkeypatch: pytest.MonkeyPatch, restart: bool = True) -> None:
    monkeypatch.setattr(supervision, "TritonServer", server)
    keep_serving(OPTIONS, restart=restart)


def test_the_back_off_doubles_and_is_reset() -> None:
    backoff = Backoff()
    assert [backoff.delay_s(0) for _ in range(9)] == pytest.approx(
        [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 25.6]
    )
    runs = [3600.0, *[1.0] * 12, 0, 0, 1.0, 3600.0, 1.0]
    delays_s = [backoff.delay_s(ran_s) for ran_s in runs]
    assert delays_s == [0, *[0] * 10, 0.2, 0.2, 0.2, 0.4, 0.2, 0, 0]


def test_a_crash_is_followed_by_an_immediate_restart(
    slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server([CRASH, None])
    with pytest.raises(Over):
        run(server, monkeypatch)
    assert server.calls == ["end", "start, anew False", "stop"]
    assert slept == []
    assert server.said[1] == f"{CRASH.reason}; starting again"


def test_starts_that_fail_are_tried_again_with_back_off(
    slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [StartFailed("no"), PortInUse("--http-port 1 is in use"), StartFailed("no")]
    server = Server([CRASH, *failures, None])
    with pytest.raises(Over):
        run(server, monkeypatch)
    assert slept == [0.2, 0.4, 0.8]
    assert "the start failed: --http-port 1 is in use" in server.said
    assert "trying again in 0.8 s" in server.said


def test_a_triton_that_crashes_while_it_starts_is_a_short_run(
    slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server([CRASH, *[TritonCrashed("signal 6")] * 3, OSError("no memory"), None])
    with pytest.raises(Over):
        run(server, monkeypatch)
    assert slept == [0.2]  # after the error that is not a crash
    assert "the start failed: no memory" in server.said


def test_a_crash_loop_waits_between_starts(
    slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server([CRASH, None] * 14)
    with pytest.raises(Over):
        run(server, monkeypatch)
    assert slept == [0.2] * 4


def test_a_permanent_error_ends_the_supervision(
    slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="holds no model"):
        run(Server([CRASH, UsageError("holds no model")]), monkeypatch)
    assert slept == []


@pytest.mark.usefixtures("slept")
def test_another_bundle_is_loaded_after_requests_have_finished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server([Ended("the bundle can be run in another way now", is_failure=False), None])
    with pytest.raises(Over):
        run(server, monkeypatch)
    assert server.calls == ["start, anew True", "stop"]


def test_a_crash_ends_a_server_without_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server([CRASH])
    with pytest.raises(DragomanError, match="code -11"):
        run(server, monkeypatch, restart=False)
    assert server.calls == ["stop, drain False", "stop"]


@pytest.mark.usefixtures("slept")
def test_a_hint_is_logged_once_however_often_the_server_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server([CRASH, None, CRASH, None])
    monkeypatch.setattr(supervision, "TritonServer", server)
    with pytest.raises(Over):
        keep_serving(OPTIONS, restart=True, hint="one command away")
    assert server.said[0] == "one command away"
    assert server.said.count("one command away") == 1
    assert server.calls.count("start, anew False") == 2

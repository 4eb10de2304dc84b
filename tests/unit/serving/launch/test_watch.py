"""Watching processes: their ends, and the engine's heartbeats."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from dragoman_serving.launch.watch import TICK_S, Heartbeat, Watch
from dragoman_serving.service.heartbeat import BEAT_S, BUSY, IDLE, start_beating

from tests.timing import set_clock


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        with contextlib.suppress(OSError):
            os.close(descriptor)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_silence_is_the_time_without_heartbeats(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    with contextlib.closing(Watch([], [Heartbeat(reading)])) as watch:
        watch.wait()
        watch.wait()
        assert watch.silent_s == 2 * TICK_S
        os.write(writing, BUSY)
        watch.wait()
        assert watch.silent_s == 0


def test_a_pause_of_the_launcher_does_not_count_as_silence(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(Watch([], [Heartbeat(pipe[0])])) as watch:
        now_s = itertools.count(0.0, 3600.0)
        set_clock(monkeypatch, "dragoman_serving.launch.watch", lambda: next(now_s))
        watch.wait()
        assert watch.silent_s == TICK_S


def test_idle_time_follows_the_heartbeats(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.write(writing, IDLE * 100)  # before monitoring started
    with contextlib.closing(Watch([], [Heartbeat(reading)])) as watch:
        assert watch.idle_s == 0
        for beats, idle_s in ((IDLE, BEAT_S), (IDLE, 2 * BEAT_S), (IDLE + BUSY, 0), (IDLE, BEAT_S)):
            os.write(writing, beats)
            watch.wait()
            assert watch.idle_s == idle_s


def test_the_end_of_a_process_is_detected_at_once(child: subprocess.Popen[bytes]) -> None:
    with contextlib.closing(Watch([child.pid], [])) as watch:
        assert not watch.wait()
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert watch.wait()


def test_an_engine_that_has_ended_is_not_watched(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.close(writing)
    with contextlib.closing(Watch([], [Heartbeat(reading)])) as watch:
        watch.wait()
        watch.wait()
        assert watch.silent_s == TICK_S


def test_of_several_engines_the_least_silent_and_the_least_idle_count() -> None:
    pipes = [os.pipe() for _ in range(3)]
    heartbeats = [Heartbeat(reading) for reading, _ in pipes]
    with contextlib.closing(Watch([], heartbeats)) as watch:
        for _ in range(4):
            os.write(pipes[0][1], IDLE)
            os.write(pipes[1][1], IDLE)
            watch.wait()
        assert (watch.silent_s, watch.idle_s) == (0, 0)
        assert heartbeats[0].idle_s == 4 * BEAT_S
        watch.wait()
        watch.wait()
        assert watch.silent_s == 2 * TICK_S
        assert heartbeats[2].silent_s >= watch.silent_s
        os.write(pipes[1][1], BUSY)
        os.close(pipes[2][1])  # it has ended, and so has no requests
        watch.wait()
        assert [heartbeat.idle_s for heartbeat in heartbeats] == [4 * BEAT_S, 0, math.inf]
        os.write(pipes[0][1], IDLE)
        os.write(pipes[1][1], IDLE)
        watch.wait()
        assert watch.idle_s == BEAT_S
    with contextlib.closing(Watch([], heartbeats[:2], anew=False)) as watch:
        assert watch.idle_s == BEAT_S
        watch.wait(0.0, 7.0)
        assert watch.silent_s == 7.0
    with contextlib.closing(Watch([], heartbeats[:2])) as watch:
        assert (watch.silent_s, watch.idle_s) == (0, 0)
    for descriptor in (*(reading for reading, _ in pipes), pipes[0][1], pipes[1][1]):
        os.close(descriptor)


def test_heartbeats_report_whether_requests_wait(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    busy = True
    start_beating(writing, lambda: busy)
    assert os.read(reading, 1) == BUSY
    busy = False
    while os.read(reading, 1) == BUSY:
        pass
    os.close(reading)
    for thread in threading.enumerate():  # it ends when there is no reader
        if thread.name == "dragoman-heartbeat":
            thread.join(60)
            assert not thread.is_alive()

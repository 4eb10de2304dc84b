"""Whether Triton lives: it answers, it works, or it hangs."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from dragoman_serving.launch.processes import cpu_s
from dragoman_serving.launch.pulse import Pulse
from dragoman_serving.launch.watch import TICK_S

from tests.timing import set_clock
from tests.waiting import hang

PULSE = "dragoman_serving.launch.pulse"

LOOKS = 5
LIVES = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
SPINNING = "print(flush=True)\nwhile True: pass"
SLEEPING = "print(flush=True); input()"


@pytest.fixture
def triton() -> Iterator[socket.socket]:
    """The address of a Triton that answers nothing by itself."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        yield listening


@contextlib.contextmanager
def pulse_of(
    triton: socket.socket, program: str
) -> Iterator[tuple[Pulse, subprocess.Popen[bytes]]]:
    """The pulse of a program that stands in for Triton's process."""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout
    process.stdout.readline()
    pulse = Pulse(process.pid, *triton.getsockname())
    try:
        yield pulse, process
    finally:
        pulse.close()
        process.kill()
        process.communicate()


def look(pulse: Pulse, looks: int = LOOKS) -> None:
    for _ in range(looks):
        time.sleep(0.2)
        pulse.look()


def test_a_triton_that_answers_is_alive(triton: socket.socket) -> None:
    with pulse_of(triton, SLEEPING) as (pulse, _):
        pulse.look()
        with triton.accept()[0] as connected:
            for _ in range(LOOKS):
                assert connected.recv(999).startswith(b"GET /v2/health/live HTTP/1.1\r\n")
                connected.sendall(LIVES)
                look(pulse, 1)
                assert pulse.silent_s == 0
            look(pulse, 2)
            assert pulse.silent_s > 0
            connected.sendall(LIVES)
            look(pulse, 1)
            assert pulse.silent_s == 0


def test_a_triton_that_neither_answers_nor_works_is_silent(triton: socket.socket) -> None:
    begin_s = time.monotonic()
    with pulse_of(triton, SLEEPING) as (pulse, _):
        look(pulse)
        assert 0 < pulse.silent_s <= time.monotonic() - begin_s


def test_a_working_triton_is_not_considered_hung(
    triton: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pulse_of(triton, SPINNING) as (pulse, process):
        # As if it had half of a processor, however little a busy machine gives it.
        with monkeypatch.context() as patch:
            set_clock(patch, PULSE, lambda: 2 * cpu_s(process.pid))
            pulse.look()
            for _ in range(LOOKS):
                used_s = cpu_s(process.pid)
                while cpu_s(process.pid) < used_s + 0.05:
                    time.sleep(0.01)
                silent_s = pulse.silent_s
                pulse.look()
                assert pulse.silent_s == silent_s
        hang(process.pid)
        look(pulse)
        assert pulse.silent_s > silent_s


def test_a_closed_connection_is_opened_again(triton: socket.socket) -> None:
    with pulse_of(triton, SLEEPING) as (pulse, _):
        pulse.look()
        triton.accept()[0].close()
        look(pulse, 2)
        with triton.accept()[0] as connected:
            connected.sendall(LIVES)
            look(pulse, 1)
            assert pulse.silent_s == 0


def test_a_triton_that_accepts_no_connections_is_silent(triton: socket.socket) -> None:
    with pulse_of(triton, SLEEPING) as (pulse, _):
        triton.close()
        look(pulse)
        assert pulse.silent_s > 0


def test_a_pause_of_the_launcher_does_not_count_as_silence(
    triton: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pulse_of(triton, SLEEPING) as (pulse, _):
        now_s = time.monotonic()
        set_clock(monkeypatch, PULSE, lambda: now_s + 3600)
        pulse.look()
        assert pulse.silent_s == TICK_S

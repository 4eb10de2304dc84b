"""`dragoman serve` with faults: it restarts what ends or hangs, on the same ports."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from dragoman_client import Translator

from tests.exchanges import send
from tests.servers import WAIT_S, ServeCommand, running

DRAIN_S = 30
"""Time for which Triton itself waits for idle connections."""
HALF_SENT = b"POST /v2/models/translate/generate HTTP/1.1\r\nContent-Length: 20000000\r\n\r\n"
MOST_BYTES = 8 << 20
DEEPEST = b'{"text_input":%b1%b}' % (b"[" * (MOST_BYTES // 2 - 10), b"]" * (MOST_BYTES // 2 - 10))
HEAVY = [f"I have {number} old books about the history of this town." for number in range(20_000)]


@contextlib.contextmanager
def idle_connections(port: int, number: int) -> Iterator[None]:
    with contextlib.ExitStack() as held:
        for _ in range(number):
            held.enter_context(socket.create_connection(("127.0.0.1", port), WAIT_S))
        yield


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeCommand]:
    with running(tmp_path_factory.mktemp("served")) as command:
        yield command


@pytest.mark.parametrize(
    ("who", "number", "replaced"),
    [
        ("triton", signal.SIGSEGV, ["triton"]),  # a healthy engine stays loaded
        ("triton", signal.SIGKILL, ["triton"]),
        ("engine", signal.SIGKILL, ["engine", "triton"]),
    ],
)
def test_killed_processes_are_restarted_and_no_request_is_lost_silently(
    server: ServeCommand, who: str, number: signal.Signals, replaced: list[str]
) -> None:
    """All are answered. Those that the engine held are sent again to the next one."""
    ends, statuses = threading.Event(), list[int]()

    def ask(number: int) -> None:
        count = 0
        while not ends.is_set():
            count += 1
            body = {"text": f"{number} men have {count} ships.", "target_language": "de"}
            answer = send(f"{server.gateway}/api/v1/translate", body)
            assert answer.json["translations"][0]["text"]
            statuses.append(answer.status)

    starts = server.log.count("ready:")
    with server.replacing(*replaced) as pids, ThreadPoolExecutor(8) as pool:
        under_way = [pool.submit(ask, number) for number in range(8)]
        server.wait_for(lambda: len(statuses) > 20)
        os.kill(pids[who], number)
        server.wait_for(lambda: server.log.count("ready:") > starts)
        assert server.translates()  # at the same port
        answered = len(statuses)
        server.wait_for(lambda: len(statuses) > answered + 20)
        ends.set()
        for future in under_way:
            future.result(WAIT_S)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_gateway_that_ends_is_restarted(server: ServeCommand, number: signal.Signals) -> None:
    starts = server.log.count("the gateway ended by itself")
    with server.replacing("gateway") as pids:
        os.kill(pids["gateway"], number)
        server.wait_for(lambda: server.log.count("the gateway ended by itself") > starts)
        server.wait_for(server.gateway_translates)


@pytest.mark.parametrize(
    ("who", "noticed"),
    [("gateway", "the gateway has hung for"), ("triton", "Triton has hung for")],
)
def test_a_hanging_triton_or_gateway_is_replaced_and_the_engine_stays(
    tmp_path: Path, who: str, noticed: str
) -> None:
    with running(tmp_path, "--engine-timeout=2.5") as server, server.replacing(who) as pids:
        os.kill(pids[who], signal.SIGSTOP)
        server.wait_for(lambda: noticed in server.log)
        server.wait_for(server.gateway_translates)
        server.wait_for(server.translates)


def test_an_engine_that_hangs_is_replaced(tmp_path: Path) -> None:
    with running(tmp_path, "--engine-timeout=4") as server:
        before = server.pids()
        assert server.gateway_is_ready()
        os.kill(before["engine"], signal.SIGSTOP)
        server.wait_for(lambda: not server.gateway_is_ready())
        assert "the engine has hung" not in server.log  # Triton always calls itself ready
        server.wait_for(lambda: "the engine has hung for 4 s" in server.log)
        server.wait_for(server.translates)
        server.wait_for(server.gateway_is_ready)
        assert server.pids()["engine"] != before["engine"]
        assert "the start failed" not in server.log


def test_a_triton_that_has_grown_is_replaced_when_idle(tmp_path: Path) -> None:
    with running(tmp_path, "--triton-growth=8") as server, server.replacing("triton"):
        with socket.create_connection(("127.0.0.1", server.port), WAIT_S) as half_sent:
            half_sent.sendall(HALF_SENT)
            half_sent.sendall(bytes(12 << 20))
            server.wait_for(lambda: "MiB more than at its start; starting again" in server.log)
        server.wait_for(server.translates)


def test_deeply_nested_json_costs_one_restart_of_triton(tmp_path: Path) -> None:
    """Triton parses a body's JSON on a stack that it keeps."""
    with running(tmp_path) as server, server.replacing("triton"):
        url = f"http://127.0.0.1:{server.port}/v2/models/translate/generate"
        with contextlib.suppress(OSError):  # refused, or broken off by the restart
            send(url, DEEPEST)
        server.wait_for(lambda: "MiB more than at its start; starting again" in server.log)
        server.wait_for(server.translates)


def test_a_busy_engine_is_not_considered_hung(tmp_path: Path) -> None:
    with (
        running(tmp_path) as server,
        server.replacing(),  # nothing
        Translator(server.grpc, timeout_s=280) as client,
    ):
        assert len(client.translate(HEAVY, beam_width=1)) == len(HEAVY)


def test_a_port_that_was_taken_in_the_meantime_is_tried_again(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        os.kill(server.pids()["triton"], signal.SIGKILL)
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.wait_for(lambda: bound(taken, server.port))
            taken.listen()
            server.wait_for(lambda: "the start failed" in server.log)
        server.wait_for(server.translates)


def bound(taken: socket.socket, port: int) -> bool:
    try:
        taken.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True


def test_idle_connections_beyond_the_soft_limit_do_not_block_others(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with running(tmp_path) as server:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            with idle_connections(server.port, 300):
                assert server.translates()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_flood_of_similar_lines_is_collapsed_and_ends(tmp_path: Path) -> None:
    with running(tmp_path, most_files=256) as server:
        before = len(server.log)
        with idle_connections(server.port, 400):
            server.wait_for(lambda: server.log.count("more lines like: [warn]") >= 3)
            assert len(server.log) - before < 20_000
        server.wait_for(server.translates)


def test_a_closed_stderr_ends_no_process(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    # `cat` passes the log on until it is killed; then no process reads it.
    with (tmp_path / "log").open("wb") as log:
        reader = subprocess.Popen(["/bin/cat"], stdin=reading, stdout=log)
    os.close(reading)
    with running(tmp_path, stderr=writing) as server:
        os.close(writing)
        reader.kill()
        reader.wait()
        os.kill(server.pids()["triton"], signal.SIGKILL)
        server.wait_for(server.translates)
        server.process.terminate()
        assert server.process.wait(WAIT_S) == 0


def test_idle_connections_do_not_delay_a_stop(tmp_path: Path) -> None:
    text = " ".join(f"I have {number} books." for number in range(2, 300))
    with (
        running(tmp_path) as server,
        Translator(server.grpc, timeout_s=WAIT_S) as client,
        idle_connections(server.port, 3),
    ):
        parts = client.translate_stream(text, split_sentences=True)
        next(parts)
        server.process.terminate()
        assert [*parts][-1].text.endswith("299 Bücher.")  # requests in flight are answered
        begin_s = time.monotonic()
        assert server.process.wait(WAIT_S) == 0
        assert time.monotonic() - begin_s < DRAIN_S


def test_a_triton_that_hangs_in_its_crash_is_replaced(tmp_path: Path) -> None:
    """After some crashes its handler of signal 6 waits forever, with the ports open."""
    with running(tmp_path) as server:
        for tries in range(1, 9):  # it may end before it can be stopped
            hang_in_crash(server, tries)
            server.wait_for(server.translates)
            if "Triton has crashed and hangs; starting again" in server.log:
                return
        pytest.fail(server.log)


def hang_in_crash(server: ServeCommand, crashes: int) -> None:
    """Let Triton crash for the given time, and stop it while it writes its stack trace."""
    triton = server.pids()["triton"]
    os.kill(triton, signal.SIGABRT)
    while server.log.count("Signal (6) received") < crashes:
        time.sleep(0.001)
    with contextlib.suppress(ProcessLookupError):
        os.kill(triton, signal.SIGSTOP)
    server.wait_for(lambda: server.pids().get("triton", triton) != triton)

"""The process of the gateway: the port that it needs, and how it restarts."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from dragoman_serving.launch import gateway_process
from dragoman_serving.launch.child_process import start_child
from dragoman_serving.launch.gateway_process import GatewayEnded, GatewayOptions, GatewayProcess
from dragoman_serving.launch.ports import PortInUse

from dragoman.kernel.errors import UsageError
from tests.waiting import hang

BEATS = "import os, sys, time\nwhile True: os.write(int(sys.argv[-1]), b'0'); time.sleep(0.05)\n"


Run = Callable[[str], None]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs a program instead of the gateway."""
    script = tmp_path / "program"
    monkeypatch.setattr(
        gateway_process,
        "start_child",
        lambda command, **how: start_child([str(script), *command[-3::2]], **how),
    )

    def write(code: str) -> None:
        script.write_text(f"#!{sys.executable}\n{code}")
        script.chmod(0o700)

    return write


def look(gateway: GatewayProcess, seconds: float) -> None:
    """Supervise it for a while."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        gateway.look()
        time.sleep(0.02)


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=f"--gateway-port {port} is in use .* --no-gateway"):
            GatewayOptions(port=port).refuse_port_in_use()
    with pytest.raises(UsageError, match=r"--gateway-address, --gateway-port: .*77777"):
        GatewayOptions(port=77_777).refuse_port_in_use()


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("127.0.0.1", "http://localhost:5000"),
        ("0.0.0.0", "http://localhost:5000"),
        ("192.0.2.1", "http://192.0.2.1:5000"),
        ("2001:db8::1", "http://[2001:db8::1]:5000"),
    ],
)
def test_the_url_that_is_printed(address: str, url: str) -> None:
    assert GatewayOptions(address=address).url(5000) == url


def test_a_gateway_that_does_not_start_is_an_error(run: Run) -> None:
    run("raise SystemExit(3)")
    with pytest.raises(GatewayEnded, match=r"ended with code 3.*--no-gateway"):
        GatewayProcess(GatewayOptions(port=0), {}, print)


def test_a_gateway_that_ends_or_hangs_is_restarted(run: Run) -> None:
    run(BEATS)
    said: list[str] = []
    with GatewayProcess(GatewayOptions(port=0, timeout_s=3.0), {}, said.append) as gateway:
        for number, reason in (
            (signal.SIGKILL, "ended by itself with code -9"),
            (signal.SIGSTOP, "has hung for 3."),
        ):
            look(gateway, 1.0)  # so that its output is read
            before = gateway.pid
            assert before
            os.kill(before, number)
            deadline = time.monotonic() + 200
            while gateway.pid in (before, None) and time.monotonic() < deadline:
                look(gateway, 0.05)
            assert gateway.pid not in (before, None)
            assert reason in said[-1]
    assert gateway.pid is None


def test_clients_that_connect_to_a_hung_gateway_are_answered_by_the_next_one(run: Run) -> None:
    run(
        f"""import os, socket, sys, threading, time
def answer():
    listening = socket.socket(fileno=int(sys.argv[-2]))
    while True:
        client, _ = listening.accept()
        client.sendall(b"%d" % os.getpid())
        client.close()
threading.Thread(target=answer, daemon=True).start()
{BEATS}""",
    )
    with GatewayProcess(GatewayOptions(port=0, timeout_s=1.0), {}, print) as gateway:
        port = int(gateway.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), 200) as client:
            before = int(client.recv(100))
        assert before == gateway.pid
        hang(before)
        with socket.create_connection(("127.0.0.1", port), 200) as client:
            client.settimeout(0.02)
            answer = b""
            while not answer:
                gateway.look()
                with contextlib.suppress(TimeoutError):
                    answer = client.recv(100)
        assert int(answer) == gateway.pid != before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 200)


def test_an_end_without_a_restart_is_an_error(run: Run) -> None:
    run("import os, sys; os.write(int(sys.argv[-1]), b'0')")
    options = GatewayOptions(port=0, restart=False)
    with (
        GatewayProcess(options, {}, print) as gateway,
        pytest.raises(GatewayEnded, match="ended by itself with code 0"),
    ):
        look(gateway, 200)


def test_a_gateway_may_use_its_delay_to_end(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gateway_process, "DRAIN_S", 0.3)
    ended = tmp_path / "ended"
    run(
        f"""import os, signal, sys, time
def end(*_):
    time.sleep(0.8)
    open({str(ended)!r}, "w").close()
    sys.exit()
signal.signal(signal.SIGTERM, end)
{BEATS}""",
    )
    for delay_s, is_in_time in ((0.0, False), (5.0, True)):
        with GatewayProcess(GatewayOptions(port=0, stop_delay_s=delay_s), {}, print):
            pass
        assert ended.exists() == is_in_time


def test_a_second_signal_ends_a_gateway_that_drains(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(f"import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{BEATS}")
    at_once = threading.Event()
    monkeypatch.setattr(gateway_process, "at_once", at_once)
    process = GatewayProcess(GatewayOptions(port=0), {}, print).__enter__()
    stopping = threading.Thread(target=process.stop)
    stopping.start()
    stopping.join(0.3)
    assert stopping.is_alive()
    at_once.set()
    stopping.join()

"""`dragoman serve` as a process: it reports "ready" in time, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from dragoman_client import TranslationError, Translator
from dragoman_export.publishing import publish
from dragoman_serving.launch.processes import alive

from tests.conftest import REPOSITORY
from tests.exchanges import send
from tests.servers import WAIT_S, ServeCommand, running, starting, wait_for


def segments() -> set[str]:
    return {path.name for path in Path("/dev/shm").glob("dragoman_*")}


def family(pid: int) -> set[int]:
    """A process and all its descendants."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
    pids = {pid}
    while grown := {child for child, parent in parents.items() if parent in pids} - pids:
        pids |= grown
    return pids


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_drains_and_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    before = segments()
    with running(tmp_path) as server:
        process = server.process
        with Translator(server.http) as client:
            assert client.translate("I'm hungry.").text  # ready means ready
        pids = family(process.pid)
        assert len(pids) >= 3  # the launcher, Triton, the engine
        with Translator(server.grpc, timeout_s=WAIT_S) as client:
            text = " ".join(f"I have {number} books." for number in range(2, 200))
            parts = client.translate_stream(text, split_sentences=True)
            next(parts)
            os.kill(process.pid, number)
            assert [*parts][-1].text.endswith("199 Bücher.")
        assert process.wait(WAIT_S) == 0
        assert not any(map(alive, pids))
    assert segments() <= before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_requests_in_flight(tmp_path: Path, number: signal.Signals) -> None:
    before = segments()
    with running(tmp_path) as server:
        process = server.process
        pids = family(process.pid)
        with Translator(server.grpc, timeout_s=WAIT_S, retries=0) as client:
            text = " ".join(f"I have {number} books." for number in range(2, 2000))
            parts = client.translate_stream(text, split_sentences=True)
            next(parts)
            os.kill(process.pid, number)
            server.wait_for(lambda: "Ctrl-C once more ends them at once" in server.log)
            next(parts)  # the first signal does not end the stream
            os.kill(process.pid, number)
            with pytest.raises(TranslationError):
                list(parts)
        assert process.wait(WAIT_S) == 0
        assert not any(map(alive, pids))
    assert segments() <= before


def test_killing_the_launcher_ends_triton_too(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        pids = family(server.process.pid)
        server.process.kill()
        server.process.wait()
        wait_for(lambda: not any(map(alive, pids)))


def test_a_signal_before_ready_leaves_nothing(tmp_path: Path) -> None:
    before = segments()
    with starting(tmp_path, "--verbose") as server:
        server.wait_for(lambda: server.log)  # Triton has started to log
        pids = family(server.process.pid)
        server.process.terminate()
        assert server.process.wait(WAIT_S) == 0
    assert not any(map(alive, pids))
    assert segments() <= before


def test_a_crash_of_triton_is_reported(tmp_path: Path) -> None:
    with running(tmp_path, "--on-failure=exit") as server:
        os.kill(server.pids()["triton"], signal.SIGKILL)
        assert server.process.wait(WAIT_S) == 1
        assert "Triton ended by itself" in server.log


def test_an_interrupted_demonstration_leaves_nothing() -> None:
    before = segments()
    command = [sys.executable, "-m", "dragoman", "demo"]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=-1, stderr=-1, text=True)
    assert process.stderr
    line = process.stderr.readline()  # Triton has started to log
    pids = family(process.pid)
    process.send_signal(signal.SIGINT)
    _, printed = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130
    assert "Traceback" not in line + printed
    assert not any(map(alive, pids))
    assert segments() <= before


def test_the_demonstration_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", "demo"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT_S,
    )
    assert done.stdout.count("Ich habe") + done.stdout.count("I ") >= 4
    assert len(done.stdout.strip().splitlines()) == 2 * (1 + 2 * 40) + 1


def test_the_demonstration_runs_for_a_model_of_other_directions(
    three_languages: Path, tmp_path: Path
) -> None:
    repository = tmp_path / "repository"
    publish(three_languages, repository)
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", "demo", "--repository", repository],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    # Into en and into fr. A translation without letters is the text itself, with more space.
    assert done.stdout.count("\n  Ich hätte gern eine Tasse Kaffee.\n") == 4


def test_every_port_can_listen_on_ipv6(tmp_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with running(tmp_path, "--address", "::1") as server:
        assert server.http.startswith("http://[::1]:")
        assert server.translates()
        with Translator(server.grpc) as client:
            assert client.translate("I'm hungry.").text == "Ich habe Hunger."


def test_texts_are_not_logged(tmp_path: Path) -> None:
    with running(tmp_path, "--verbose") as server:
        secret = "xylophone"
        with Translator(server.grpc) as client:
            client.translate(f"My {secret} is broken.")
            with pytest.raises(Exception, match="tokens"):
                client.translate(f"{secret} " * 300, split_sentences=False)
        server.process.terminate()
        server.process.wait(WAIT_S)
        assert secret not in server.log


def test_settings_come_from_flags_the_environment_and_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dragoman.toml").write_text('precision = "int8"\nallow_priority = true\n')
    monkeypatch.setenv("DRAGOMAN_WORKERS", "1")
    words = ("--settings", str(tmp_path / "dragoman.toml"), "--precision", "fp32")
    with running(tmp_path, *words) as server:
        body = {"text_input": "Good morning.", "queue_priority": 3}
        assert send(f"{server.http}/v2/models/translate/generate", body).json["text_output"]
        with Translator(server.http) as translator:
            info = translator.info()
        assert info.bundles[0]["precision"] == "fp32"
        metrics = send(f"http://127.0.0.1:{info.metrics_port}/metrics").body.decode()
        assert 'dragoman_rows_limit{model="translate"} 32' in metrics


def test_without_triton_the_gateway_serves_alone(tmp_path: Path) -> None:
    with starting(tmp_path, "--no-triton") as server:
        server.wait_for(lambda: "ready: http" in server.log)
        assert "without Triton (--no-triton): only the gateway answers" in server.log
        assert "(Triton)" not in server.log
        pids = server.pids()
        assert sorted(pids) == ["engine", "gateway"]
        assert server.gateway_is_ready()
        assert server.gateway_translates()
        with Translator(server.gateway) as client:
            assert client.info().metrics_port is None
            assert [*client.translate_stream("I'm hungry.", target_language="de")][-1].text
        wait_for(lambda: metric(server, 'dragoman_sentences_total{model="translate"}') >= 2)
        metrics = send(f"{server.gateway}/metrics").body.decode()
        assert "# TYPE dragoman_total_seconds histogram" in metrics
        assert metric(server, 'dragoman_total_seconds_bucket{le="+Inf",model="translate"}') >= 2
        assert 'dragoman_bundle_loaded{bundle="en-de-fr",model="translate"} 1.0' in metrics

        os.kill(pids["engine"], signal.SIGKILL)
        server.wait_for(lambda: server.log.count("ready: http") == 2)
        assert server.gateway_translates()
        assert server.pids()["gateway"] == pids["gateway"]
        everyone = family(server.process.pid)
        os.kill(server.process.pid, signal.SIGTERM)
        assert server.process.wait(WAIT_S) == 0
        assert not any(map(alive, everyone))


def metric(server: ServeCommand, name: str) -> float:
    lines = send(f"{server.gateway}/metrics").body.decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} "))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--no-gateway"], "--no-triton, --no-gateway: give one of them"),
        (["--load", "encoder"], "--load: is for Triton; omit --no-triton"),
        (["--grpc-connection-age", "60"], "--grpc-connection-age: is for Triton"),
    ],
)
def test_settings_of_triton_are_refused_without_it(
    tmp_path: Path, words: list[str], message: str
) -> None:
    with starting(tmp_path, "--no-triton", *words) as server:
        assert server.process.wait(WAIT_S) == 2
        assert message in server.log

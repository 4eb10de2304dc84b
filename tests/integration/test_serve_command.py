"""`dragoman serve` as a process: it reports "ready" in time, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from dragoman_client import Translator
from dragoman_export.publishing import publish

from tests.conftest import REPOSITORY
from tests.integration.conftest import WAIT_S

SERVE = (
    *(sys.executable, "-m", "dragoman", "serve"),
    *("--http-port=0", "--grpc-port=0", "--metrics-port=0", "--gateway-port=0"),
)
READY = re.compile(r"ready: (http://\S+) and (grpc://\S+)")


def segments() -> set[str]:
    return {path.name for path in Path("/dev/shm").glob("dragoman_*")}


def family(pid: int) -> set[int]:
    """A process and all its descendants."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
    found = {pid}
    while grown := {child for child, parent in parents.items() if parent in found} - found:
        found |= grown
    return found


def alive(pids: set[int]) -> set[int]:
    running = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z":
                running.add(pid)
    return running


@contextlib.contextmanager
def serving(*words: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    process = subprocess.Popen(
        [*SERVE, *words],
        cwd=REPOSITORY,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    try:
        for line in process.stderr:
            if found := READY.search(line):
                yield process, found[1], found[2]
                break
        else:
            pytest.fail("the server ended without being ready")
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def wait_until_gone(pids: set[int]) -> set[int]:
    deadline = time.monotonic() + WAIT_S
    while alive(pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    return alive(pids)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_drains_and_leaves_nothing(number: signal.Signals) -> None:
    before = segments()
    with serving() as (process, http, grpc):
        with Translator(http) as client:
            assert client.translate("I'm hungry.").text  # ready means ready
        pids = family(process.pid)
        assert len(pids) >= 3  # the launcher, Triton, the engine
        with Translator(grpc, timeout_s=WAIT_S) as client:
            text = " ".join(f"I have {number} books." for number in range(2, 200))
            parts = client.translate_stream(text, split_sentences=True)
            next(parts)
            os.kill(process.pid, number)
            assert [*parts][-1].text.endswith("199 Bücher.")
        assert process.wait(WAIT_S) == 0
        assert alive(pids) == set()
    assert segments() <= before


def test_killing_the_launcher_ends_triton_too() -> None:
    with serving() as (process, _, _):
        pids = family(process.pid)
        process.kill()
        process.wait()
        assert wait_until_gone(pids) == set()


def test_a_signal_before_ready_leaves_nothing() -> None:
    before = segments()
    process = subprocess.Popen([*SERVE, "--verbose"], cwd=REPOSITORY, stderr=subprocess.PIPE)
    assert process.stderr
    process.stderr.readline()  # Triton has started to log
    pids = family(process.pid)
    process.terminate()
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    assert alive(pids) == set()
    assert segments() <= before


def test_a_crash_of_triton_is_reported() -> None:
    with serving("--on-failure=exit") as (process, _, _):
        for pid in family(process.pid) - {process.pid}:
            if b"tritonserver\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
        assert process.wait(WAIT_S) == 1
        assert process.stderr
        assert "Triton ended by itself" in process.stderr.read()


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
    assert alive(pids) == set()
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
    assert done.stdout.count("Ich hätte gern eine Tasse Kaffee.") == 4  # into en and into fr


def test_texts_are_not_logged() -> None:
    with serving("--verbose") as (process, _, grpc):
        secret = "xylophone"
        with Translator(grpc) as client:
            client.translate(f"My {secret} is broken.")
            with pytest.raises(Exception, match="tokens"):
                client.translate(f"{secret} " * 300, split_sentences=False)
        process.terminate()
        assert process.stderr
        assert secret not in process.stderr.read()


def test_settings_come_from_flags_the_environment_and_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dragoman.toml").write_text('precision = "int8"\nallow_priority = true\n')
    monkeypatch.setenv("DRAGOMAN_WORKERS", "1")
    words = ("--settings", str(tmp_path / "dragoman.toml"), "--precision", "fp32")
    with serving(*words) as (_, http, _):
        request = urllib.request.Request(
            f"{http}/v2/models/translate/generate",
            data=json.dumps({"text_input": "Good morning.", "queue_priority": 3}).encode(),
        )
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            assert json.load(answer)["text_output"]
        with Translator(http) as translator:
            info = translator.info()
        assert info.bundles[0]["precision"] == "fp32"
        with urllib.request.urlopen(f"http://127.0.0.1:{info.metrics_port}/metrics") as metrics:
            assert 'dragoman_rows_limit{model="translate"} 32' in metrics.read().decode()

"""`dragoman serve` as a process: it says "ready" in time, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from dragoman_client import Translator

from tests.conftest import REPOSITORY

READY = re.compile(r"ready: (http://\S+) and (grpc://\S+)")


def segments() -> set[str]:
    return {path.name for path in Path("/dev/shm").glob("dragoman_*")}


def family(pid: int) -> set[int]:
    """A process and all that descend from it."""
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
def serving() -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    ports = [f"--{name}-port=0" for name in ("http", "grpc", "metrics")]
    process = subprocess.Popen(
        [sys.executable, "-m", "dragoman", "serve", *ports],
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
    deadline = time.monotonic() + 60
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
        assert len(pids) >= 3  # the launcher, Triton, the model
        with Translator(grpc) as client, ThreadPoolExecutor(1) as pool:
            texts = [f"I have {number} books." for number in range(2, 200)]
            under_way = pool.submit(client.translate, texts)
            time.sleep(0.3)
            os.kill(process.pid, number)
            assert len(under_way.result(60)) == len(texts)
        assert process.wait(60) == 0
        assert alive(pids) == set()
    assert segments() <= before


def test_a_killed_launcher_takes_triton_along() -> None:
    with serving() as (process, _, _):
        pids = family(process.pid)
        process.kill()
        process.wait()
        assert wait_until_gone(pids) == set()


def test_texts_are_not_logged(tmp_path: Path) -> None:
    with serving() as (process, _, grpc):
        secret = "xylophone"
        with Translator(grpc) as client:
            client.translate(f"My {secret} is broken.")
            with pytest.raises(Exception, match="tokens"):
                client.translate(f"{secret} " * 300)
        process.terminate()
        assert process.stderr
        assert secret not in process.stderr.read()

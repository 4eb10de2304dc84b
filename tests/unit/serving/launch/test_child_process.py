"""Programs started as children: their environment, and that they end with their parent."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dragoman_serving.launch.child_process import start_child

from tests.conftest import REPOSITORY
from tests.waiting import hang

WAIT_S = 60
SHELL = "/bin/sh"


@contextlib.contextmanager
def soft_limit(what: int, most: int) -> Iterator[None]:
    """A soft limit of our own, if the hard one allows it."""
    soft, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(what, (soft, hard))


def test_the_program_gets_its_settings_and_inherits_nothing_else(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tells = (
        "grep SigIgn /proc/$$/status",
        "ulimit -s",  # KiB
        "ulimit -Sn",
        "ulimit -Sc",
        "echo $A$HOME",
        "cut -d ' ' -f 6 /proc/$$/stat",  # its session
        "cat",  # its input
        "echo kept > /proc/$$/fd/$1",
    )
    with (
        soft_limit(resource.RLIMIT_NOFILE, 256),
        soft_limit(resource.RLIMIT_CORE, 1 << 20),
        (tmp_path / "kept").open("w") as kept,
    ):
        process = start_child(
            [SHELL, "-c", ";".join(tells), SHELL, str(kept.fileno())],
            environment={"A": "given", "PATH": os.environ["PATH"]},
            descriptors=[kept.fileno()],
            stack_bytes=3 << 20,
        )
        assert process.wait(WAIT_S) == 0
    out, err = capfd.readouterr()
    assert out == ""
    _, ignored, *others = err.split()
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Python ignores these; the caller of this test may ignore others.
    assert not any(
        int(ignored, 16) >> (number - 1) & 1 for number in (signal.SIGPIPE, signal.SIGXFSZ)
    )
    assert others == ["3072", str(most_files), "0", "given", str(process.pid)]
    assert (tmp_path / "kept").read_text() == "kept\n"


def test_a_missing_program_is_named(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert start_child([str(tmp_path / "none")]).wait(WAIT_S) == 1
    assert capfd.readouterr().err == f"{tmp_path / 'none'}: No such file or directory\n"


@pytest.mark.parametrize("hangs", [False, True])
def test_the_program_ends_with_its_parent(hangs: bool) -> None:
    reading, writing = os.pipe()
    starts = (
        "import signal; from dragoman_serving.launch.child_process import start_child\n"
        f"tells = 'echo $$ > /proc/$$/fd/{writing}; exec sleep 600'\n"
        f"start_child(['{SHELL}', '-c', tells], descriptors=[{writing}])\n"
        "signal.pause()"
    )
    parent = subprocess.Popen([sys.executable, "-c", starts], cwd=REPOSITORY, pass_fds=[writing])
    os.close(writing)
    try:
        child = int(os.read(reading, 64))
        if hangs:
            hang(child)
    finally:
        parent.kill()
        parent.wait()
    # Its end of the pipe closes when it has ended.
    assert select.select([reading], [], [], WAIT_S)[0]
    assert os.read(reading, 64) == b""
    os.close(reading)

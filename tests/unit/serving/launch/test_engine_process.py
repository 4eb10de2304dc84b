"""The engine's process and its socket, without a model."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
from pathlib import Path

import pytest
from dragoman_options.client_frames import pack_hello
from dragoman_options.frames import FrameSplitter, Hello, Kind
from dragoman_serving.launch.engine_process import EngineProcess
from dragoman_serving.service.engine_socket import listen, remove
from dragoman_serving.service.heartbeat import IDLE

from dragoman.kernel.errors import DragomanError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Parent folder of the sockets' folders."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def connect(path: Path) -> socket.socket:
    connected = socket.socket(socket.AF_UNIX)
    connected.settimeout(60)
    connected.connect(str(path))
    return connected


def test_only_this_user_reaches_the_socket(folder: Path) -> None:
    paths = set()
    for _ in range(2):
        listening, path = listen()
        with listening, connect(path):
            assert path.parent.parent == folder
            assert path.parent.stat().st_mode & 0o777 == 0o700
            paths.add(path)
        remove(path)
    assert len(paths) == 2
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("kind", ["folder", "link", "file"])
def test_a_path_that_another_user_created_does_not_block_the_server(
    folder: Path, kind: str
) -> None:
    usual = folder / f"dragoman-{os.getuid()}"
    if kind == "folder":
        usual.mkdir()
        usual.chmod(0o777)
    elif kind == "link":
        (folder / "elsewhere").mkdir(mode=0o700)
        usual.symlink_to(folder / "elsewhere")
    else:
        usual.touch()
    listening, path = listen()
    with listening, connect(path):
        assert path.parent != usual
        assert not path.parent.is_symlink()
    remove(path)


def test_an_unusable_folder_for_the_socket_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wrong in (folder / "none", folder / ("x" * 120)):
        monkeypatch.setattr(tempfile, "tempdir", str(wrong))
        with pytest.raises(DragomanError, match=r"cannot listen there .* set TMPDIR"):
            listen()
        wrong.mkdir()
    assert list((folder / ("x" * 120)).iterdir()) == []


def test_the_process_accepts_models_until_it_is_stopped() -> None:
    engine = EngineProcess(8002)
    try:
        assert engine.runs
        with connect(engine.path) as model:
            hello = Hello("", 1, '{"name": "translate_stream"}')
            model.sendall(pack_hello(hello))
            ((kind, config),) = FrameSplitter().feed(model.recv(1 << 16))
            assert kind is Kind.READY
            assert b"text_input" in config
        assert os.read(engine.heartbeat, 1) == IDLE
    finally:
        engine.stop()
    assert not engine.runs
    assert not engine.path.exists()


def test_a_hung_process_that_is_killed_does_not_run() -> None:
    engine = EngineProcess(8002)
    try:
        os.kill(engine.pid, signal.SIGSTOP)
        engine.kill()
        assert not engine.runs
    finally:
        engine.stop()
    assert not engine.path.exists()

"""The engine's process and its socket, without a model."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
from pathlib import Path

import pytest

from dragoman.errors import DragomanError
from serving.engine_process import EngineProcess
from serving.engine_socket import listen
from serving.service.frames import FrameSplitter, Hello, Kind


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where sockets lie."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"dragoman-{os.getuid()}"


def connect(path: Path) -> socket.socket:
    connected = socket.socket(socket.AF_UNIX)
    connected.settimeout(60)
    connected.connect(str(path))
    return connected


def test_only_this_user_reaches_the_socket(folder: Path) -> None:
    for _ in range(2):
        listening, path = listen()
        with listening, connect(path):
            assert path.parent == folder
            assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_may_look_into_is_refused(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o755)
    with pytest.raises(DragomanError, match="is open to other users"):
        listen()


def test_a_place_where_no_socket_can_be_is_named(folder: Path) -> None:
    folder.write_text("no folder")
    with pytest.raises(DragomanError, match="cannot listen there"):
        listen()


def test_the_process_takes_models_up_until_it_is_stopped() -> None:
    engine = EngineProcess()
    try:
        assert engine.runs
        with connect(engine.path) as model:
            model.sendall(Hello("", 1, '{"model_transaction_policy": {"decoupled": true}}').pack())
            ((kind, _),) = FrameSplitter().feed(model.recv(1 << 16))
            assert kind is Kind.READY
    finally:
        engine.stop()
    assert not engine.runs
    assert not engine.path.exists()


def test_a_process_that_dies_does_not_run() -> None:
    engine = EngineProcess()
    try:
        os.kill(engine.pid, signal.SIGKILL)
        os.waitid(os.P_PID, engine.pid, os.WEXITED | os.WNOWAIT)
        assert not engine.runs
    finally:
        engine.stop()
    assert not engine.path.exists()

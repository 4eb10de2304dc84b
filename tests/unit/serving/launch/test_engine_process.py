"""The engine's process and its socket, without a model."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from dragoman_options.client_frames import pack_hello
from dragoman_options.frames import FrameSplitter, Hello, Kind
from dragoman_serving.launch.engine_process import EngineProcess
from dragoman_serving.service.engine_socket import EngineSocket
from dragoman_serving.service.heartbeat import IDLE
from dragoman_serving.service.models_to_serve import ModelsToServe

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
        with EngineSocket() as door, connect(door.path):
            assert door.path.parent.parent == folder
            assert door.path.parent.stat().st_mode & 0o777 == 0o700
            assert door.path.stat().st_mode & 0o777 == 0o600
            paths.add(door.path)
    assert len(paths) == 2
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_process_of_another_user_is_not_served(
    random_bundle: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code = """
import os, socket, sys
os.setuid(65534)
connected = socket.socket(socket.AF_UNIX)
connected.settimeout(60)
connected.connect(sys.argv[1])
print(connected.recv(1))
"""
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    with EngineSocket() as door:
        door.path.parent.chmod(0o755)  # as if the modes were wrong
        door.path.chmod(0o777)
        engine = EngineProcess(door, ModelsToServe((str(random_bundle),)))
        try:
            command = [sys.executable, "-I", "-S", "-c", code, str(door.path)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
            assert done.stdout == "b''\n"
            with connect(door.path) as client:
                client.sendall(pack_hello(Hello("info")))
                assert client.recv(1)
        finally:
            engine.stop()
    assert "a process of another user tried to connect" in capfd.readouterr().err


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
    with EngineSocket() as door, connect(door.path):
        assert door.path.parent != usual
        assert not door.path.parent.is_symlink()


def test_an_unusable_folder_for_the_socket_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wrong in (folder / "none", folder / ("x" * 120)):
        monkeypatch.setattr(tempfile, "tempdir", str(wrong))
        with pytest.raises(DragomanError, match=r"cannot listen there .* set TMPDIR"):
            EngineSocket()
        wrong.mkdir()
    assert list((folder / ("x" * 120)).iterdir()) == []


def test_the_process_accepts_clients_until_it_is_stopped(random_bundle: Path) -> None:
    with EngineSocket() as door:
        engine = EngineProcess(door, ModelsToServe((str(random_bundle),)))
        try:
            assert engine.runs
            with connect(door.path) as client:
                client.sendall(pack_hello(Hello("translate_stream")))
                ((kind, config),) = FrameSplitter().feed(client.recv(1 << 16))
                assert kind is Kind.READY
                assert b"text_input" in config
            assert os.read(engine.heartbeat.descriptor, 1) == IDLE
        finally:
            engine.stop()
        assert not engine.runs
        assert door.path.exists()  # for the next process
    assert not door.path.exists()


def test_a_client_that_connects_between_two_processes_waits_for_the_second(
    random_bundle: Path,
) -> None:
    to_serve = ModelsToServe((str(random_bundle),))
    with EngineSocket() as door:
        EngineProcess(door, to_serve).stop()
        with connect(door.path) as client:
            client.sendall(pack_hello(Hello("info")))
            engine = EngineProcess(door, to_serve)
            try:
                ((kind, _),) = FrameSplitter().feed(client.recv(1 << 16))
                assert kind is Kind.READY
            finally:
                engine.stop()


def test_a_hung_process_that_is_killed_does_not_run(random_bundle: Path) -> None:
    with EngineSocket() as door:
        engine = EngineProcess(door, ModelsToServe((str(random_bundle),)))
        try:
            os.kill(engine.pid, signal.SIGSTOP)
            engine.kill()
            assert not engine.runs
        finally:
            engine.stop()

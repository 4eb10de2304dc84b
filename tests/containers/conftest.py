"""The project's images, built once, and its Compose file with free ports."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import ssl
import subprocess
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from dragoman_serving.launch.ports import free_ports

from tests.conftest import REPOSITORY
from tests.containers.podman import NGINX, PROMETHEUS, Podman

_COMPOSE = "podman-compose==1.6.0"
"""Under the GPL, so it is a program in an environment of its own."""
SENTENCE = {"text": "Good morning.", "target_language": "de"}


@pytest.fixture(scope="package")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """Podman with all images."""
    assert os.geteuid() == 0, "these tests need root"
    folder = tmp_path_factory.mktemp("podman")
    engine = Podman(folder)
    try:
        engine.make_images()
        yield engine
    finally:
        engine.run("system", "reset", "--force", check=False)
        shutil.rmtree(folder)


class Composed:
    """The Compose project in a folder of its own."""

    def __init__(self, podman: Podman, program: Path, folder: Path) -> None:
        for name in ("docker-compose.yml", "deploy"):
            source = REPOSITORY / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
        self._podman, self._program, self._folder = podman, program, folder
        self.port, self.local_port = free_ports(2)
        tls = folder / "tls"
        tls.mkdir()
        self.authority = trustme.CA()
        own = self.authority.issue_cert("localhost")
        own.private_key_pem.write_to_path(str(tls / "privkey.pem"))
        for pem in own.cert_chain_pems:
            pem.write_to_path(str(tls / "fullchain.pem"), append=True)
        for path in (tls, *tls.iterdir()):
            os.chown(path, 101, 101)
        settings = {
            "DRAGOMAN_TLS": tls,
            "DRAGOMAN_PORT": self.port,
            "DRAGOMAN_LOCAL_PORT": self.local_port,
            "NGINX_IMAGE": NGINX,
            "PROMETHEUS_IMAGE": PROMETHEUS,
        }
        lines = [f"{name}={value}\n" for name, value in settings.items()]
        (folder / ".env").write_text("".join(lines))

    def run(self, *words: str) -> None:
        """Run a command of Compose."""
        done = subprocess.run(
            [self._program, *words],
            cwd=self._folder,
            env={
                **self._podman.environment,
                "PATH": f"{self._program.parent}:{os.environ['PATH']}",
            },
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    @contextmanager
    def up(self, profiles: tuple[str, ...], *services: str) -> Iterator[None]:
        """Services that run; podman 4.3 cannot wait until one is healthy, so tests wait."""
        words = [word for profile in profiles for word in ("--profile", profile)]
        try:
            self.run(*words, "up", "--detach", "--no-build", *services)
            yield
        finally:
            self.run(*words, "down", "--volumes")

    def ask(
        self, port: int, path: str, body: object = None, key: str = "", tls: bool = True
    ) -> tuple[int, Any]:
        """Status and body of a response; JSON if it is."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        connection: http.client.HTTPConnection = (
            http.client.HTTPSConnection("localhost", port, timeout=30, context=context)
            if tls
            else http.client.HTTPConnection("localhost", port, timeout=30)
        )
        headers = {"Content-Type": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        sent = None if body is None else json.dumps(body)
        try:
            connection.request("GET" if sent is None else "POST", path, sent, headers)
            response = connection.getresponse()
            received = response.read()
        finally:
            connection.close()
        try:
            return response.status, json.loads(received)
        except ValueError:
            return response.status, received

    def container(self, service: str) -> str:
        """The name of a service's container."""
        return f"dragoman_{service}_1"


@pytest.fixture(scope="package")
def compose(podman: Podman, tmp_path_factory: pytest.TempPathFactory) -> Composed:
    """The Compose project, not started."""
    programs = tmp_path_factory.mktemp("programs")
    venv.create(programs, with_pip=True)
    python = str(programs / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", _COMPOSE], check=True)
    folder = tmp_path_factory.mktemp("compose")
    # Only the certificate is for others than root.
    folder.chmod(0o755)
    return Composed(podman, programs / "bin" / "podman-compose", folder)


def wait_until(is_done: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Wait; a refused or broken connection means not yet."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            if is_done():
                return
        except (OSError, http.client.HTTPException):
            pass
        assert time.monotonic() < deadline_s
        time.sleep(0.3)


def assert_confined(podman: Podman, container: str, user: int) -> None:
    """The container has no privileges, and its root file system is read-only."""
    status = podman.inside(container, "id -u; cat /proc/self/status; touch /new; touch /usr/new")
    lines = status.stdout.splitlines()
    assert lines[0] == str(user)
    values = dict(line.split(":\t", 1) for line in lines[1:])
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(values[kind], 16) == 0
    assert values["NoNewPrivs"] == "1"
    assert status.stderr.count("Read-only file system") == 2

"""A Redis server, of the machine or from Debian's packages."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import debian

PASSWORD = "pa55word-of-redis"


class Redis:
    """A Redis server on a free port."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._command = [
            *(*command, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder)),
            *("--save", "", "--appendonly", "no", "--requirepass", PASSWORD),
        ]
        self._environment = environment
        self.url = f"redis://:{PASSWORD}@127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        """Start it, without data."""
        self._process = subprocess.Popen(
            self._command, env=self._environment, stdout=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            time.sleep(0.02)
        pytest.fail("Redis did not start")

    def stop(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def running_redis(folder: Path) -> Iterator[Redis]:
    """A server with its files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    command, environment = ["redis-server"], dict(os.environ)
    if shutil.which("redis-server") is None:
        packages = ("redis-tools", "libjemalloc2", "liblua5.1-0", "lua-cjson", "lua-bitop")
        root = debian.unpack(folder / "system", *packages, "liblzf1")
        libraries = [str(path.parent) for path in root.rglob("*.so*")]
        environment["LD_LIBRARY_PATH"] = ":".join(sorted({*libraries}))
        (server,) = root.rglob("redis-check-rdb")  # the server, by another name
        command = [str(server.rename(server.with_name("redis-server")))]
    redis = Redis(command, environment, folder)
    try:
        yield redis
    finally:
        redis.stop()

"""LibreTranslate's own server, from its own environment.

Its licence is the AGPL: nothing of it is imported here or installed with this project.
`argos_stand_in` replaces Argos Translate, which would install PyTorch.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

from dragoman_serving.launch.ports import free_ports

from dragoman.kernel.errors import DragomanError
from lab.gateway import argos_stand_in

VERSION = "1.9.6"
_ALONE = (
    *(f"libretranslate=={VERSION}", "argos-translate-files==1.4.4", "argos-translate-lt==1.12.1"),
)
"""Packages that are installed without their dependencies."""
_REQUIRED = (
    *("apscheduler==3.11.2", "beautifulsoup4==4.9.3", "ctranslate2<5", "expiringdict==1.2.2"),
    *("flask==2.2.5", "flask-babel==3.1.0", "flask-limiter==2.6.3", "flask-swagger==0.2.14"),
    *("flask-swagger-ui==4.11.1", "itsdangerous==2.1.2", "langdetect==1.0.9", "lexilang==1.0.7"),
    *("numpy<2", "packaging==23.1", "polib==1.1.1", "prometheus-client==0.15.0", "redis==4.4.4"),
    *("requests==2.31.0", "sentencepiece", "setuptools<81", "waitress==2.1.2", "werkzeug==2.3.8"),
)
_START_S = 60.0


def make_environment(folder: Path) -> None:
    """Install LibreTranslate into a folder, unless it is there.

    Raises:
        DragomanError: pip failed.
    """
    if (folder / "bin" / "libretranslate").exists():
        return
    pip = [str(folder / "bin" / "pip"), "install", "--quiet"]
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [*pip, "--no-deps", *_ALONE],
        [*pip, *_REQUIRED],
    ):
        if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
            raise DragomanError(f"LibreTranslate cannot be installed in {folder}")


@contextlib.contextmanager
def libretranslate(folder: Path, threads: int, variables: Mapping[str, str]) -> Iterator[str]:
    """LibreTranslate on a free port.

    Args:
        folder: of its environment.
        threads: number of threads that handle requests.
        variables: environment variables of `argos_stand_in`.

    Yields:
        Its URL.

    Raises:
        DragomanError: it did not start.
    """
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as home, (Path(home) / "log").open("wb") as log:
        shutil.copy(str(argos_stand_in.__file__), home)
        (Path(home) / "sitecustomize.py").write_text("import argos_stand_in\n")
        program = (folder / "bin" / "libretranslate").absolute()
        process = subprocess.Popen(
            [program, "--port", str(port), "--threads", str(threads), "--disable-web-ui"],
            cwd=home,
            env={**os.environ, **variables, "PYTHONPATH": home, "HOME": home},
            stdout=log,
            stderr=log,
        )
        url = f"http://127.0.0.1:{port}"
        try:
            deadline_s = time.monotonic() + _START_S
            while not _answers(f"{url}/languages"):
                if process.poll() is not None or time.monotonic() > deadline_s:
                    last = (Path(home) / "log").read_text(errors="replace")[-500:]
                    raise DragomanError(f"{program} does not start: {last}")
                time.sleep(0.2)
            yield url
        finally:
            process.terminate()
            process.wait(30)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):  # noqa: S310
            return True
    except OSError:
        return False

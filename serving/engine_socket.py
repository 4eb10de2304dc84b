"""The socket at which Triton's models reach the engine's process."""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
from pathlib import Path

from dragoman.errors import DragomanError

VARIABLE = "DRAGOMAN_ENGINE"
"""Environment variable of Triton's process that names the socket's path."""


def listen() -> tuple[socket.socket, Path]:
    """A new socket that listens, in a folder into which only this user may look.

    Raises:
        DragomanError: there is no such folder and none can be made, or it is open to others.
    """
    folder = Path(tempfile.gettempdir()) / f"dragoman-{os.getuid()}"
    path = folder / f"{os.getpid()}-{secrets.token_hex(4)}.sock"
    listening = socket.socket(socket.AF_UNIX)
    try:
        _make(folder)
        listening.bind(str(path))
        listening.listen()
    except OSError as error:
        listening.close()
        raise DragomanError(f"{path}: cannot listen there: {error.strerror or error}") from error
    return listening, path


def _make(folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise DragomanError(f"{folder}: is open to other users; remove it, or set TMPDIR")

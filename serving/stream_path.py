"""Where the models of one server meet."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from dragoman.errors import DragomanError


def socket_path(server_pid: int) -> Path:
    """Path of the socket, in a folder of this user's own."""
    return _folder() / f"{server_pid}.sock"


def make_folder() -> None:
    """Make the folder, into which only this user may look.

    Raises:
        DragomanError: it cannot be made, or is open to others.
    """
    folder = _folder()
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise DragomanError(f"{folder}: cannot be made: {error.strerror}") from error
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise DragomanError(f"{folder}: is open to other users; remove it, or set TMPDIR")


def _folder() -> Path:
    return Path(tempfile.gettempdir()) / f"dragoman-{os.getuid()}"

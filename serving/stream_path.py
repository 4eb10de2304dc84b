"""Where the models of one server meet."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from dragoman.errors import DragomanError


def socket_path(server_pid: int) -> Path:
    """Where the two models of one server meet; only this user may look into the folder."""
    folder = Path(tempfile.gettempdir()) / f"dragoman-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o077:
        raise DragomanError(f"{folder}: is open to other users; remove it, or set TMPDIR")
    return folder / f"{server_pid}.sock"

"""The socket at which Triton's models reach the engine's process."""

from __future__ import annotations

import contextlib
import socket
import tempfile
from pathlib import Path

from dragoman.kernel.errors import DragomanError

VARIABLE = "DRAGOMAN_ENGINE"
"""Environment variable of Triton's process that names the socket's path."""


def listen() -> tuple[socket.socket, Path]:
    """A new socket that listens, in a new folder that only this user may enter.

    A folder with a random name cannot be made by another user first, as a fixed one could.

    Returns:
        the socket, and its path, which `remove` removes with its folder.

    Raises:
        DragomanError: no folder can be made, or no socket in it.
    """
    path = Path(tempfile.gettempdir())
    with contextlib.ExitStack() as undo:
        listening = undo.enter_context(socket.socket(socket.AF_UNIX))
        try:
            path = Path(tempfile.mkdtemp(prefix="dragoman-", dir=path)) / "engine.sock"
            undo.callback(remove, path)
            listening.bind(str(path))
            listening.listen()
        except OSError as error:
            reason = error.strerror or error
            raise DragomanError(
                f"{path}: cannot listen there ({reason}); set TMPDIR to another folder"
            ) from error
        undo.pop_all()
    return listening, path


def remove(path: Path) -> None:
    """Remove a socket and its folder, if they are still there."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        path.parent.rmdir()

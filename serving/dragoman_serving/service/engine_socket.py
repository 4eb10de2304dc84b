"""The socket to which Triton's models connect to reach the engine process."""

from __future__ import annotations

import contextlib
import socket
import tempfile
from pathlib import Path

from dragoman.kernel.errors import DragomanError

VARIABLE = "DRAGOMAN_ENGINE"
"""Environment variable of the Triton process with the socket's path."""


def listen() -> tuple[socket.socket, Path]:
    """Returns a new listening socket, in a new folder that only this user can enter.

    The folder has a random name, so another user cannot create it first.

    Returns:
        The socket, and its path; `remove` removes it with its folder.

    Raises:
        DragomanError: the folder or the socket cannot be made.
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
    """Remove a socket and its folder, if they still exist."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        path.parent.rmdir()

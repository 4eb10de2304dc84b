"""The socket at which the engine process serves its clients: Triton's models and the gateway."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import tempfile
from pathlib import Path

from dragoman.kernel.errors import DragomanError

VARIABLE = "DRAGOMAN_ENGINE_SOCKETS"
"""Environment variable of the Triton process with the sockets' paths; see `frames.join_paths`."""
_CREDENTIALS = struct.Struct("iII")
"""Process id, user id and group id.

Source: https://man7.org/linux/man-pages/man7/unix.7.html, SO_PEERCRED
"""


class EngineSocket(contextlib.AbstractContextManager["EngineSocket"]):
    """A listening socket, in a new folder that only this user can enter.

    The folder has a random name, so another user cannot create it first. The socket belongs to the
    launcher: clients that connect while the engine starts again wait in its queue.

    Attributes:
        listening: the socket.
        path: its path.
    """

    def __init__(self) -> None:
        """Listen.

        Raises:
            DragomanError: the folder or the socket cannot be made.
        """
        self.path = Path(tempfile.gettempdir())
        with contextlib.ExitStack() as undo:
            self.listening = undo.enter_context(socket.socket(socket.AF_UNIX))
            try:
                folder = Path(tempfile.mkdtemp(prefix="dragoman-", dir=self.path))
                self.path = folder / "engine.sock"
                undo.callback(self._remove)
                self.listening.bind(str(self.path))
                self.path.chmod(0o600)
                self.listening.listen()
            except OSError as error:
                reason = error.strerror or error
                raise DragomanError(
                    f"{self.path}: cannot listen there ({reason}); set TMPDIR to another folder"
                ) from error
            undo.pop_all()

    def __exit__(self, *_: object) -> None:
        """Close the socket."""
        self.close()

    def close(self) -> None:
        """Close the socket, and remove it with its folder."""
        self.listening.close()
        self._remove()

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
            self.path.parent.rmdir()


def is_own_user(connected: socket.socket) -> bool:
    """Whether the user of this process runs the process at the other end of a socket."""
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(credentials)
    return bool(user == os.getuid())

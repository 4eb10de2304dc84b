"""Errors with a message for the user, and the status of a request that fails with each error.

DragomanError           one line that names the file, the value and the fix; never a traceback
├── UsageError          a wrong option, file or value                (exit code 2)
│   └── InvalidRequest  a request that cannot be served              (INVALID_ARGUMENT)
└── CheckFailed         a verification found a difference            (exit code 1)
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

Status = Literal["INVALID_ARGUMENT", "UNAVAILABLE", "CANCELLED", "INTERNAL"]
"""gRPC's names of the status codes that a request can fail with."""


class DragomanError(Exception):
    """Base class of all errors with a message for the user."""

    exit_code = 1
    status: Status = "INTERNAL"
    """Status of a request that fails with this error."""


class UsageError(DragomanError):
    """A wrong option, file or value."""

    exit_code = 2


class InvalidRequest(UsageError):
    """A request that cannot be served; for the fields see `dragoman_options.refusal.Refusal`."""

    status = "INVALID_ARGUMENT"

    def __init__(
        self,
        message: str,
        kind: str | None = "invalid",
        option: str | None = None,
        text_index: int | None = None,
    ) -> None:
        """Store the message and the fields."""
        super().__init__(message)
        self.kind, self.option, self.text_index = kind, option, text_index


class CheckFailed(DragomanError):
    """A verification that ran and found a difference."""


_FOREIGN: dict[type[BaseException], Status] = {CancelledError: "CANCELLED"}
"""Status of other libraries' errors; the default is INTERNAL."""


def as_dragoman_error(error: BaseException) -> DragomanError:
    """Converts any error of a request to a `DragomanError`.

    Of another library's error only the class is named, because its message may quote the text.
    """
    if isinstance(error, DragomanError):
        return error
    ours = DragomanError(f"the request failed: {type(error).__name__}")
    ours.status = _FOREIGN.get(type(error), "INTERNAL")
    return ours


@contextmanager
def writing(what: Path | str) -> Iterator[None]:
    """Converts an OSError inside the block to a UsageError that names a file.

    The block should hold only file operations, because other code may raise an OSError too.

    Args:
        what: the file or folder to name.

    Raises:
        UsageError: an OSError was raised inside.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(f"{what}: cannot be written: {error.strerror}") from error

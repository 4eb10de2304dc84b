"""Errors whose message is meant for a person, and the status that a request gets for each error.

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
    """Base of every error whose message is meant for a person."""

    exit_code = 1
    status: Status = "INTERNAL"
    """Of a request that fails with it."""


class UsageError(DragomanError):
    """A wrong option, file or value."""

    exit_code = 2


class InvalidRequest(UsageError):
    """A request that cannot be served; the message says why and names the text's index."""

    status = "INVALID_ARGUMENT"


class CheckFailed(DragomanError):
    """A verification that ran and found a difference."""


_FOREIGN: dict[type[BaseException], Status] = {CancelledError: "CANCELLED"}
"""Status of errors that are not ours; all others are INTERNAL."""


def as_dragoman_error(error: BaseException) -> DragomanError:
    """Any error of a request as one of ours.

    Of another library's error only the class is named: its message may quote the text.
    """
    if isinstance(error, DragomanError):
        return error
    ours = DragomanError(f"the request failed: {type(error).__name__}")
    ours.status = _FOREIGN.get(type(error), "INTERNAL")
    return ours


@contextmanager
def writing(what: Path | str) -> Iterator[None]:
    """Around what is done with files alone: other errors of the system are not theirs.

    Args:
        what: the file or folder to name.

    Raises:
        UsageError: one of the system's errors was raised inside.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(f"{what}: cannot be written: {error.strerror}") from error

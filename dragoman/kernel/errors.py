"""What goes wrong in a way that a person can mend.

DragomanError      one line that names the file, the value and the mend; never a traceback
├── UsageError     what was asked for makes no sense            (exit code 2)
└── CheckFailed    it was done, and a check says no             (exit code 1)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class DragomanError(Exception):
    """Base of every error whose message is meant for a person."""

    exit_code = 1


class UsageError(DragomanError):
    """A wrong option, file or value."""

    exit_code = 2


class CheckFailed(DragomanError):
    """A verification that ran and found a difference."""


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

"""Starts a program that is killed when its parent exits.

Python could prepare the child between fork and exec (`preexec_fn`). But in a process with gRPC
channels, grpcio from 1.80 on then sometimes ends the child with signal 6 (see
https://github.com/grpc/grpc/issues/43055). So this file is also a script, which prepares its
process and then runs the program with `exec`; the process id stays the same.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

_DEATH_SIGNAL_OPTION = 1
"""PR_SET_PDEATHSIG of prctl(2)."""
_STDERR = 2
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def start_child(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    descriptors: Sequence[int] = (),
    stack_bytes: int | None = None,
    output: int = _STDERR,
) -> subprocess.Popen[bytes]:
    """Start a program in its own session, with empty input.

    It may open as many files as the hard limit allows, and writes no core dump. If it cannot be
    run, the child prints the reason and exits with code 1.

    Args:
        command: the program's path and its arguments.
        environment: its environment variables; by default those of this process.
        descriptors: file descriptors that it inherits, under the same numbers.
        stack_bytes: its stack size, limited by the hard limit; by default that of this process.
        output: file descriptor for its stdout and stderr; by default stderr of this process.
    """
    return subprocess.Popen(  # noqa: S603
        [
            # The script needs only the standard library, so it starts quickly.
            *(sys.executable, "-I", "-S", __file__),
            *(str(os.getpid()), str(stack_bytes or 0)),
            *command,
        ],
        env=environment,
        pass_fds=descriptors,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


def _become(parent: int, stack_bytes: int, command: list[str]) -> None:
    # After any other signal, a process that is stopped or hangs would keep its ports.
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL_OPTION, signal.SIGKILL)
    if os.getppid() != parent:
        return  # the parent exited before prctl was called
    _set_limits(stack_bytes)
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(command[0], command)  # noqa: S606
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


def _set_limits(stack_bytes: int) -> None:
    # Each connection takes a file descriptor; the usual soft limit of 1024 is soon used up.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # A core dump would write texts of requests to the disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if stack_bytes:
        _, hard = resource.getrlimit(resource.RLIMIT_STACK)
        most = stack_bytes if hard == resource.RLIM_INFINITY else min(stack_bytes, hard)
        resource.setrlimit(resource.RLIMIT_STACK, (most, hard))


if __name__ == "__main__":
    _become(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])

"""The project's build backend: setuptools, with a C compiler from PyPI if the machine has none.

The wheel `ziglang` contains Clang and the headers of glibc. It takes 400 MB unpacked, so it is a
build requirement only if no compiler is found. `CC=none` always builds with it, and
`MACHINE=aarch64` then builds for that machine. `DRAGOMAN_DEVELOPMENT=1` builds for the project's
tests (see `libraries.py`).

Source: https://peps.python.org/pep-0517/ and https://peps.python.org/pep-0660/
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sys
import sysconfig
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

_ZIGLANG = "ziglang>=0.17,<0.18"
_TARGETS = {
    "x86_64": "-target x86_64-linux-gnu.2.28 -mcpu=x86_64",
    "aarch64": "-target aarch64-linux-gnu.2.28",
}
"""Flags by machine. Without a target, Zig compiles for this machine's CPU and glibc.

`x86_64_v2` is for CPUs that are slow at unaligned 32-byte vectors, for which Clang would load them
in two halves.
"""


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Packages that pip must install for `build_wheel`."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_missing()]


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """Packages that pip must install for `build_editable`."""
    return [*build_meta.get_requires_for_build_editable(config_settings), *_missing()]


def build_wheel(*arguments: Any, **named: Any) -> str:
    """Build a wheel with setuptools."""
    os.environ.update(compiler_variables())
    return str(build_meta.build_wheel(*arguments, **named))


def build_editable(*arguments: Any, **named: Any) -> str:
    """Build an editable wheel with setuptools."""
    os.environ.update(compiler_variables())
    return str(build_meta.build_editable(*arguments, **named))


def find_compiler() -> str | None:
    """The command of a C compiler: `CC` if it is set, else Python's own, else a common name.

    Raises:
        SystemExit: `CC` names no program.
    """
    named = os.environ.get("CC", "")
    if named == "none":
        return None
    if named and not _exists(named):
        raise SystemExit(f"CC is {named!r}: no such program; `CC=none` compiles with ziglang")
    usual = (sysconfig.get_config_var("CC") or "cc", "cc", "gcc", "clang")
    return next((command for command in (named, *usual) if _exists(command)), None)


def compiler_variables() -> dict[str, str]:
    """Environment variables for setuptools; empty if it finds the compiler itself."""
    command = find_compiler()
    if command is None and _can_use_zig():
        zig = f"{shlex.quote(sys.executable)} -m ziglang cc"
        command = f"{zig} {_TARGETS[machine()]}"
    if command in (None, os.environ.get("CC"), sysconfig.get_config_var("CC")):
        return {}
    # Python's own CFLAGS and LDSHARED are for the compiler that compiled it.
    flags = os.environ.get("CFLAGS", "-DNDEBUG -fwrapv")
    return {"CC": command, "LDSHARED": f"{command} -shared", "CFLAGS": flags}


def machine() -> str:
    """The machine that the libraries are compiled for: `MACHINE`, else this one."""
    return os.environ.get("MACHINE") or platform.machine()


def _missing() -> list[str]:
    return [_ZIGLANG] if find_compiler() is None and _can_use_zig() else []


def _can_use_zig() -> bool:
    return sys.platform == "linux" and machine() in _TARGETS


def _exists(command: str) -> bool:
    words = shlex.split(command)
    return bool(words) and shutil.which(words[0]) is not None

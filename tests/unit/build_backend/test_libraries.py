"""Flags of the compiled libraries."""

from __future__ import annotations

import pytest
from libraries import extensions


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "riscv64"])
def test_only_a_development_build_has_assertions_and_fails_on_warnings(machine: str) -> None:
    for library in extensions(machine):
        assert "-DNDEBUG" in library.extra_compile_args
        assert not [flag for flag in library.extra_compile_args if flag.startswith("-Werror")]
    for library in extensions(machine, development=True):
        flags = library.extra_compile_args
        assert {"-UNDEBUG", "-Wall", "-Wextra", "-Werror"} <= set(flags)
        assert "-DNDEBUG" not in flags
        assert not library.optional, "a warning would only leave the library out"

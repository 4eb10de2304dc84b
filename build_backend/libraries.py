"""The compiled libraries: their sources, and the compiler's flags for each instruction set.

A development build has assertions, and warnings are errors. An installation has neither: a warning
of a compiler that we do not know must not fail it.
"""

from __future__ import annotations

from glob import glob
from pathlib import Path

from setuptools import Extension

_ROOT = Path(__file__).parents[1]
_KERNELS = "dragoman_serving.engine.compiled._kernels_"
_X86_64 = {
    "avx512vnni": ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni"],
    "avxvnni": ["-mavx2", "-mfma", "-mf16c", "-mavxvnni"],
    "avx2": ["-mavx2", "-mfma", "-mf16c"],
    "c": [],
}
_RELEASE = ["-DNDEBUG"]
_DEVELOPMENT = ["-UNDEBUG", "-Wall", "-Wextra", "-Werror"]


def extensions(machine: str, compiler: str = "gcc", development: bool = False) -> list[Extension]:
    """All libraries for a machine.

    Args:
        machine: as `platform.machine` names it.
        compiler: its command; Zig has its own flag for CPUs.
        development: whether it is a development build.
    """
    dotprod = "-mcpu=generic+dotprod" if "ziglang" in compiler else "-march=armv8.2-a+dotprod"
    flags: dict[str, dict[str, list[str]]] = {
        "x86_64": _X86_64,
        "aarch64": {"neon": [dotprod], "c": []},
    }
    kernels = flags.get(machine, {"c": []})
    mode = _DEVELOPMENT if development else _RELEASE
    return [
        *(_kernels(name, [*kernels[name], *mode], not development) for name in kernels),
        _relay(mode),
    ]


def _kernels(instruction_set: str, flags: list[str], optional: bool) -> Extension:
    """The network and its searches; optional, as older compilers lack the newest instructions.

    Without -ffp-contract=off, compilers fuse multiplications and additions freely, and results
    differ between instruction sets.
    """
    folder = "serving/dragoman_serving/engine/compiled"
    common = ["-O3", "-std=gnu11", "-ffp-contract=off", "-Wno-psabi"]
    return _extension(_KERNELS + instruction_set, folder, [*common, *flags], optional)


def _relay(flags: list[str]) -> Extension:
    """Triton's backend `dragoman`."""
    folder = "serving/dragoman_serving/relay"
    return _extension("dragoman_serving.relay._relay", folder, ["-O2", "-std=gnu11", *flags])


def _extension(name: str, folder: str, flags: list[str], optional: bool = False) -> Extension:
    return Extension(
        name,
        sources=sorted(glob(f"{folder}/*.c", root_dir=_ROOT)),
        depends=sorted(glob(f"{folder}/*.h", root_dir=_ROOT)),
        extra_compile_args=flags,
        extra_link_args=["-pthread"],
        optional=optional,
    )

"""Wheels for every Python 3: what is compiled is loaded by ctypes and knows nothing of Python.

All else is in pyproject.toml.
"""

import os
from copy import copy

from dragoman_build import machine
from libraries import extensions
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

_GLIBC = "2_28"
"""That of the wheel's platform, if Zig compiles, which links against it."""
_COMPILER = os.environ.get("CC", "")
_DEVELOPMENT = os.environ.get("DRAGOMAN_DEVELOPMENT", "") == "1"


class BuildLibraries(build_ext):
    """Names libraries without Python's version, and compiles several at once."""

    def finalize_options(self) -> None:
        """One compiler for each processor."""
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extension(self, ext: Extension) -> None:
        """Compile a library in a folder of its own: the kernels have the same sources."""
        command = copy(self)
        command.build_temp = os.path.join(self.build_temp, ext.name)
        super(BuildLibraries, command).build_extension(ext)

    def get_ext_filename(self, fullname: str) -> str:
        """The path of a library in the wheel."""
        return f"{fullname.replace('.', os.sep)}.so"


class Wheel(bdist_wheel):
    """A wheel for any Python 3 on one platform."""

    def get_tag(self) -> tuple[str, str, str]:
        """Python, its ABI, and the platform."""
        _, _, plat = super().get_tag()
        if "ziglang" in _COMPILER:
            plat = f"manylinux_{_GLIBC}_{machine()}"
        return "py3", "none", plat


setup(
    ext_modules=extensions(machine(), _COMPILER, _DEVELOPMENT),
    cmdclass={"bdist_wheel": Wheel, "build_ext": BuildLibraries},
)

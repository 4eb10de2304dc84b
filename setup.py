"""Wheels for every Python 3: what is compiled is loaded by ctypes and knows nothing of Python.

All else is in pyproject.toml.
"""

import os

from dragoman_build import machine
from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

_GLIBC = "2_28"
"""That of the wheel's platform, if Zig compiles, which links against it."""


class BuildLibraries(build_ext):
    """Names libraries without Python's version, and compiles those that the machine can run."""

    def build_extensions(self) -> None:
        """Compile; the kernels are for x86-64."""
        if machine() != "x86_64":
            self.extensions = [one for one in self.extensions if not one.name.endswith("_kernels")]
        super().build_extensions()

    def get_ext_filename(self, fullname: str) -> str:
        """The path of a library in the wheel."""
        return f"{fullname.replace('.', os.sep)}.so"


class Wheel(bdist_wheel):
    """A wheel for any Python 3 on one platform."""

    def get_tag(self) -> tuple[str, str, str]:
        """Python, its ABI, and the platform."""
        _, _, plat = super().get_tag()
        if "ziglang" in os.environ.get("CC", ""):
            plat = f"manylinux_{_GLIBC}_{machine()}"
        return "py3", "none", plat


setup(cmdclass={"bdist_wheel": Wheel, "build_ext": BuildLibraries})

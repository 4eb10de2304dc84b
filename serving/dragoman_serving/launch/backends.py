"""Finds the Triton installation, and lays out its folder of backends."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from dragoman.kernel.errors import UsageError
from dragoman.kernel.installation import install_command
from dragoman_serving.service.model_config import BACKEND

_PYTHON = "python"
"""Triton's backend for models in Python."""
INSTALL = install_command("serve")
COMPILE = f"{INSTALL} again, with a C compiler (apt install gcc libc6-dev) or ziglang"
"""How to compile missing code."""
_RELAY = Path(__file__).parents[1] / "relay" / "_relay.so"


@dataclass(frozen=True)
class Installation:
    """A server's binary with the files that it needs."""

    binary: Path
    backends: Path
    """The folder of its backends."""
    stub: Path | None
    """The program that runs models in Python, if it is not in that backend's folder."""
    libraries: tuple[Path, ...]
    embedded: bool


def find_installation() -> Installation:
    """Returns Triton from the PATH (NVIDIA's container), or from the `nvidia-pytriton` wheel.

    Raises:
        UsageError: Triton is not installed, or not for this Python.
    """
    if binary := shutil.which("tritonserver"):
        server = Path(binary).resolve()
        return Installation(server, server.parents[1] / "backends", None, (), embedded=False)
    folder = find_embedded_server()
    if folder is None:
        raise UsageError(
            f"no tritonserver on the PATH, and nvidia-pytriton is not installed: {INSTALL}"
        )
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = folder / "python_backend_stubs" / version / "triton_python_backend_stub"
    if not stub.exists():
        raise UsageError(f"nvidia-pytriton has no stub for Python {version}: use 3.11 or 3.12")
    return Installation(
        binary=folder / "bin" / "tritonserver",
        backends=folder / "backends",
        stub=stub,
        libraries=(
            folder.parents[1] / "nvidia_pytriton.libs",
            Path(sysconfig.get_config_var("LIBDIR") or ""),
        ),
        embedded=True,
    )


def find_embedded_server() -> Path | None:
    """Returns the folder of the server in the `nvidia-pytriton` wheel, if it is installed."""
    spec = importlib.util.find_spec("pytriton")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "tritonserver"
    return folder if (folder / "bin" / "tritonserver").exists() else None


def find_relay() -> Path | None:
    """Returns the backend `dragoman`, which is compiled when the project is installed."""
    return _RELAY if _RELAY.exists() else None


def lay_out_backends(installation: Installation, named: frozenset[str], scratch: Path) -> Path:
    """Make a folder with only the backends that are needed.

    The server's `python` backend runs code of models, so it is not included by default.

    Args:
        installation: the server.
        named: the backends that the served models name.
        scratch: where to make the folder.

    Returns:
        The folder, for Triton's `--backend-directory`.

    Raises:
        UsageError: the backend `dragoman` is not compiled.
    """
    relay = find_relay()
    if relay is None:
        raise UsageError(f"Triton's backend dragoman is not compiled: {COMPILE}")
    folder = scratch / "backends"
    folder.mkdir()
    for backend in installation.backends.iterdir():
        if backend.name not in named:
            continue
        if backend.name == _PYTHON and installation.stub is not None:
            # Copied, because Triton refuses a link to the library for a backend in Python.
            shutil.copytree(backend, folder / _PYTHON)
            (folder / _PYTHON / installation.stub.name).symlink_to(installation.stub)
        else:
            (folder / backend.name).symlink_to(backend)
    ours = folder / BACKEND
    ours.mkdir()
    (ours / f"libtriton_{BACKEND}.so").symlink_to(relay)
    return folder

"""Finds what a machine lacks for serving."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dragoman.kernel.errors import UsageError
from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.runtimes.device.gpu import cuda_provider_obstacle, gpu_obstacle
from dragoman_serving.launch.backends import COMPILE, INSTALL, find_embedded_server, find_relay
from dragoman_serving.launch.ports import port_is_free

_OLDEST_GLIBC = (2, 35)
_PYTHONS = ((3, 11), (3, 12))


@dataclass(frozen=True)
class Finding:
    """One line of the report; "missing" and "busy" prevent the start of a server."""

    severity: Literal["ok", "slow", "busy", "missing"]
    text: str
    fix: str = ""


def diagnose(address: str, ports: Sequence[int]) -> Iterator[Finding]:
    """Check everything that serving needs, and yield one finding each.

    Args:
        address: IP address of the ports.
        ports: ports that a server would listen on.
    """
    yield _python()
    yield _glibc(platform.libc_ver())
    yield _triton()
    yield _relay(find_relay() is not None)
    yield _runtime(_installed("onnxruntime"), _installed("onnxruntime-gpu"))
    for port in ports:
        if port_is_free(address, port):
            yield Finding("ok", f"port {port} is free")
        else:
            fix = "stop the program that uses it, or serve on other ports"
            yield Finding("busy", f"port {port} is in use on {address}", fix)
    yield _native()
    yield _gpu(gpu_obstacle(), cuda_provider_obstacle())


def _python() -> Finding:
    version = sys.version_info[:2]
    text = f"Python {platform.python_version()}"
    if version in _PYTHONS:
        return Finding("ok", text)
    return Finding("missing", text, "use Python 3.11 or 3.12")


def _glibc(libc: tuple[str, str]) -> Finding:
    name, version = libc
    if name != "glibc":
        return Finding("missing", f"{name or 'unknown'} C library", "use a Linux with glibc")
    if tuple(map(int, version.split(".")[:2])) < _OLDEST_GLIBC:
        fix = "use a newer system: Ubuntu 22.04, Debian 12 or later"
        return Finding("missing", f"glibc {version} is older than 2.35", fix)
    return Finding("ok", f"glibc {version}")


def _triton() -> Finding:
    if binary := shutil.which("tritonserver"):
        return Finding("ok", f"Triton at {binary}")
    if find_embedded_server():
        return Finding("ok", f"Triton from nvidia-pytriton {_installed('nvidia-pytriton')}")
    return Finding("missing", "no Triton server", INSTALL)


def _runtime(cpu: str | None, gpu: str | None) -> Finding:
    if cpu and gpu:
        fix = "pip uninstall -y onnxruntime onnxruntime-gpu, then install one serve extra again"
        return Finding("missing", "onnxruntime and onnxruntime-gpu overwrite each other", fix)
    if not cpu and not gpu:
        return Finding("missing", "no ONNX Runtime", INSTALL)
    return Finding("ok", f"ONNX Runtime {cpu or f'{gpu} for GPUs'}")


def _native() -> Finding:
    try:
        chosen = library.choose_instruction_set()
    except UsageError as error:
        return Finding("missing", str(error), f"unset {library.VARIABLE}")
    if chosen is None:
        return Finding("missing", "the engine's compiled code", COMPILE)
    if chosen == "c":
        text = "the engine is compiled, but not for this CPU's vector instructions"
        fix = "use a CPU with AVX2 or with NEON dot products, which is many times faster"
        return Finding("slow", text, fix)
    return Finding("ok", f"the engine is compiled for this CPU: {chosen}")


def _relay(compiled: bool) -> Finding:
    if not compiled:
        return Finding("missing", "the relay between Triton and the engine", COMPILE)
    return Finding("ok", "the relay between Triton and the engine is compiled")


def _gpu(obstacle: str | None, provider_obstacle: str | None) -> Finding:
    if obstacle is not None:
        return Finding("ok", f"{obstacle}: the CPU decodes")
    if provider_obstacle is not None:
        fix = "pip uninstall -y onnxruntime, then install the extra serve-gpu"
        return Finding("slow", f"the GPU is not used: {provider_obstacle}", fix)
    return Finding("ok", "an NVIDIA GPU and an ONNX Runtime for it")


def _installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None

"""TensorRT or TensorRT for RTX; no other module depends on which one it is.

`tensorrt` is the library for data centres, which builds for the GPU of this machine. `tensorrt_rtx`
has the same interface, and can build without a GPU for any GPU of a compute capability.
"""

from __future__ import annotations

import importlib
import os
import subprocess
from dataclasses import dataclass
from typing import Any, Literal

from dragoman.kernel.errors import UsageError

LibraryName = Literal["tensorrt", "tensorrt_rtx"]
_NAMES: tuple[LibraryName, ...] = ("tensorrt", "tensorrt_rtx")
_OLDEST = (10, 15)
"""First release of `tensorrt` that updates a cache in place; `tensorrt_rtx` has other numbers."""


@dataclass(frozen=True)
class TensorRT:
    """The installed library: its module, name and release."""

    module: Any
    name: LibraryName
    version: str

    def create_network(self, builder: Any) -> Any:
        """Returns a strongly typed network, with the precisions of its graph.

        Newer releases have only these.
        """
        strong = getattr(self.module.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
        return builder.create_network(0 if strong is None else 1 << int(strong))

    def build_for(self, config: Any, compute_capability: str) -> None:
        """Set the compute capability of a configuration, such as `8.9`.

        Raises:
            UsageError: this library cannot build for it.
        """
        if self.name == "tensorrt":
            here = local_compute_capability()
            if compute_capability != here:
                raise UsageError(
                    f"tensorrt builds only for this machine's GPU, of compute capability {here}, "
                    f"not for {compute_capability}: use --library tensorrt_rtx, or build there"
                )
            return
        known = self.compute_capabilities
        if compute_capability not in known:
            raise UsageError(
                f"{self.name} {self.version} cannot build for compute capability "
                f"{compute_capability}: give one of {', '.join(known)}"
            )
        config.num_compute_capabilities = 1
        config.set_compute_capability(known[compute_capability], 0)

    @property
    def compute_capabilities(self) -> dict[str, Any]:
        """The compute capabilities that it can build for without a GPU, by number."""
        listed = getattr(self.module, "ComputeCapability", None)
        members: dict[str, Any] = getattr(listed, "__members__", {})
        return {
            f"{name[2:-1]}.{name[-1]}": member
            for name, member in members.items()
            if name.startswith("SM")
        }


def load(name: LibraryName | None = None) -> TensorRT:
    """Find TensorRT.

    Args:
        name: the library; None: the first that is installed.

    Raises:
        UsageError: the library is not installed, or too old.
    """
    for candidate in _NAMES if name is None else (name,):
        try:
            module = importlib.import_module(candidate)
        except ImportError:
            continue
        version = str(module.__version__)
        if candidate == "tensorrt" and _numbers(version) < _OLDEST:
            oldest = ".".join(map(str, _OLDEST))
            raise UsageError(f"tensorrt {version} is too old: {oldest} or newer is needed")
        return TensorRT(module, candidate, version)
    names = " or ".join(_NAMES) if name is None else name
    fix = "pip install tensorrt-rtx, or tensorrt from NVIDIA's index"
    raise UsageError(f"{names} is not installed: {fix}")


def local_compute_capability() -> str:
    """Returns the compute capability of the first GPU, such as `9.0`.

    Raises:
        UsageError: there is no NVIDIA GPU, or no driver.
    """
    command = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:  # nvidia-smi ignores this variable, unlike CUDA
        command.append(f"--id={visible.split(',')[0]}")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        raise UsageError(
            "no NVIDIA GPU was found (nvidia-smi fails): name one with --compute-capability"
        ) from None
    capabilities = done.stdout.strip().splitlines()
    if not capabilities or visible in ("", "-1"):
        raise UsageError("no NVIDIA GPU may be used here: name one with --compute-capability")
    return capabilities[0].strip()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())

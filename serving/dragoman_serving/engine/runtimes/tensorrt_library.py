"""TensorRT under either of its names; nothing else knows which.

`tensorrt` is NVIDIA's for data centres, which builds for the GPU that is there. `tensorrt_rtx` has
the same interface, and builds ahead of time, without a GPU, for those of a compute capability.
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
"""The first release of `tensorrt` that updates a cache in place; `tensorrt_rtx` counts from 1."""


@dataclass(frozen=True)
class TensorRT:
    """The library that was found: its module, under which name, and which release."""

    module: Any
    name: LibraryName
    version: str

    def create_network(self, builder: Any) -> Any:
        """A network whose precisions are those of its graph; newer releases know no others."""
        strong = getattr(self.module.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
        return builder.create_network(0 if strong is None else 1 << int(strong))

    def build_for(self, config: Any, compute_capability: str) -> None:
        """Let a configuration build for GPUs of a compute capability, such as `8.9`.

        Raises:
            UsageError: this library does not build for them.
        """
        if self.name == "tensorrt":
            here = local_compute_capability()
            if compute_capability != here:
                raise UsageError(
                    f"tensorrt builds for the GPU that is there, of compute capability {here}, not "
                    f"for {compute_capability}: use --library tensorrt_rtx, or build there"
                )
            return
        known = self.compute_capabilities
        if compute_capability not in known:
            raise UsageError(
                f"{self.name} {self.version} builds for no compute capability "
                f"{compute_capability}: give one of {', '.join(known)}"
            )
        config.num_compute_capabilities = 1
        config.set_compute_capability(known[compute_capability], 0)

    @property
    def compute_capabilities(self) -> dict[str, Any]:
        """Those that can be built for without a GPU, by their numbers."""
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
        name: which one; None for the first that is installed.

    Raises:
        UsageError: it is not installed, or too old.
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
    wanted = " or ".join(_NAMES) if name is None else name
    mend = "pip install tensorrt-rtx, or tensorrt from NVIDIA's index"
    raise UsageError(f"{wanted} is not installed: {mend}")


def local_compute_capability() -> str:
    """That of the first GPU, such as `9.0`.

    Raises:
        UsageError: there is no NVIDIA GPU, or no driver.
    """
    command = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:  # which CUDA heeds, and nvidia-smi does not
        command.append(f"--id={visible.split(',')[0]}")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        raise UsageError(
            "no NVIDIA GPU was found (nvidia-smi fails): name one with --compute-capability"
        ) from None
    found = done.stdout.strip().splitlines()
    if not found or visible in ("", "-1"):
        raise UsageError("no NVIDIA GPU may be used here: name one with --compute-capability")
    return found[0].strip()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())

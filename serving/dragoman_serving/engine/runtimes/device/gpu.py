"""Checks whether a GPU can decode, and chooses the runtime."""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest
from dragoman_serving.engine.runtimes.device.cuda_memory import CudaMemory
from dragoman_serving.engine.runtimes.device.device_decoding import Runner
from dragoman_serving.engine.runtimes.device.device_network import DeviceNetwork
from dragoman_serving.engine.runtimes.device.plans import Target, fitting_plans
from dragoman_serving.engine.runtimes.device.tensorrt_runner import TensorRTRunner
from dragoman_serving.engine.runtimes.tensorrt_library import load, local_compute_capability
from dragoman_serving.engine.settings import Precision, QuantizedPrecision

log = logging.getLogger(__name__)

GpuRuntime = Literal["onnxruntime_cuda", "tensorrt"]
_PROVIDER = "CUDAExecutionProvider"


@cache
def gpu_obstacle() -> str | None:
    """Returns the reason why there is no usable GPU, or None."""
    try:
        local_compute_capability()
    except UsageError:
        return "there is no NVIDIA GPU"
    return None


def cuda_provider_obstacle() -> str | None:
    """Returns the reason why ONNX Runtime cannot use a GPU, or None."""
    import onnxruntime  # imported only if there is a GPU

    if _PROVIDER in onnxruntime.get_available_providers():
        return None
    return "this ONNX Runtime is only for CPUs (install onnxruntime-gpu instead)"


def runtime_obstacle(
    runtime: GpuRuntime, bundle: Path, manifest: Manifest, precision: Precision
) -> str | None:
    """Returns the reason why a runtime cannot decode a bundle on this machine's GPU, or None."""
    if obstacle := gpu_obstacle():
        return obstacle
    if runtime == "onnxruntime_cuda":
        if precision in get_args(QuantizedPrecision):
            return "it computes in fp32, fp16 or bf16"
        return cuda_provider_obstacle()
    try:
        library = load()
        capability = local_compute_capability()
        fitting_plans(
            bundle, manifest, Target(library.name, library.version, capability, precision)
        )
    except UsageError as error:
        return str(error)
    return None


def choose_gpu_runtime(bundle: Path, manifest: Manifest, precision: Precision) -> GpuRuntime | None:
    """Returns TensorRT if the bundle has plans that fit, else ONNX Runtime, else None."""
    if gpu_obstacle():
        return None
    runtimes: tuple[GpuRuntime, ...] = ("tensorrt", "onnxruntime_cuda")
    for runtime in runtimes:
        obstacle = runtime_obstacle(runtime, bundle, manifest, precision)
        if obstacle is None:
            return runtime
        if runtime != "tensorrt" or manifest.plans:
            log.warning("%s is not used: %s", runtime, obstacle)
    return None


def open_gpu_network(
    bundle: Path,
    manifest: Manifest,
    runtime: GpuRuntime,
    precision: Precision,
    records: bool = True,
) -> DeviceNetwork:
    """Load a bundle onto the GPU; there must be no `runtime_obstacle`.

    With `records`, TensorRT records CUDA graphs of recurring runs.

    Raises:
        UsageError: the bundle cannot be loaded.
    """
    # Imported here, because it imports ONNX Runtime.
    from dragoman_serving.engine.runtimes.device.onnx_runner import OnnxRunner

    memory = CudaMemory()
    runner: Runner
    if runtime == "tensorrt":
        runner = TensorRTRunner(bundle, manifest, precision, memory, records)
    else:
        assert precision != "int8"  # excluded by `runtime_obstacle`
        assert precision != "fp8"
        runner = OnnxRunner(bundle, manifest, precision, "cuda", memory)
    return DeviceNetwork(manifest, runner, memory)

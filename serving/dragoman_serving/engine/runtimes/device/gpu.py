"""Whether there is a GPU to decode on, and with what."""

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
    """Why nothing can be decoded on a GPU here, if so."""
    try:
        local_compute_capability()
    except UsageError:
        return "there is no NVIDIA GPU"
    return None


def cuda_provider_obstacle() -> str | None:
    """Why ONNX Runtime cannot use a GPU, if so."""
    import onnxruntime  # only where there is a GPU

    if _PROVIDER in onnxruntime.get_available_providers():
        return None
    return "this ONNX Runtime is for CPUs alone (install onnxruntime-gpu in its place)"


def runtime_obstacle(
    runtime: GpuRuntime, bundle: Path, manifest: Manifest, precision: Precision
) -> str | None:
    """Why a runtime cannot decode a bundle on this machine's GPU, if so."""
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
    """TensorRT where the bundle has plans for what is here, else ONNX Runtime; None if neither."""
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
    """Load a bundle onto the GPU, for which there is no `runtime_obstacle`.

    TensorRT records CUDA graphs of what recurs, if it is to.

    Raises:
        UsageError: the bundle cannot be loaded.
    """
    # Only here, because it imports ONNX Runtime.
    from dragoman_serving.engine.runtimes.device.onnx_runner import OnnxRunner

    memory = CudaMemory()
    runner: Runner
    if runtime == "tensorrt":
        runner = TensorRTRunner(bundle, manifest, precision, memory, records)
    else:
        assert precision != "int8"  # which is a `runtime_obstacle`
        assert precision != "fp8"
        runner = OnnxRunner(bundle, manifest, precision, "cuda", memory)
    return DeviceNetwork(manifest, runner, memory)

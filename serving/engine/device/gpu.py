"""Whether there is a GPU to decode on, and with what."""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path

import onnxruntime

from dragoman.errors import UsageError
from dragoman.manifest import Manifest
from serving.engine.device.cuda_memory import CudaMemory
from serving.engine.device.decoding import Runner
from serving.engine.device.network import DeviceNetwork
from serving.engine.device.onnx_runner import OnnxRunner
from serving.engine.device.plans import Target, fitting_plans
from serving.engine.device.tensorrt_runner import TensorRTRunner
from serving.engine.settings import FloatPrecision, Precision, Runtime
from serving.tensorrt_library import load, local_compute_capability

log = logging.getLogger(__name__)

_OTHERWISE = "or serve with runtime onnxruntime_cuda"


@cache
def gpu_obstacle() -> str | None:
    """Why nothing can be decoded on a GPU here, if so."""
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return "this ONNX Runtime is for CPUs alone"
    try:
        local_compute_capability()
    except UsageError:
        return "there is no NVIDIA GPU"
    return None


def choose_gpu_runtime(bundle: Path, manifest: Manifest, precision: Precision) -> Runtime:
    """TensorRT where the bundle has plans for what is here, else ONNX Runtime."""
    if not manifest.plans:
        return "onnxruntime_cuda"
    try:
        library = load()
        capability = local_compute_capability()
        fitting_plans(
            bundle, manifest, Target(library.name, library.version, capability, precision)
        )
    except UsageError as error:
        log.warning("%s; ONNX Runtime runs the model", error)
        return "onnxruntime_cuda"
    return "tensorrt"


def open_gpu_network(
    bundle: Path, manifest: Manifest, runtime: Runtime, precision: Precision
) -> DeviceNetwork:
    """Load a bundle onto the GPU.

    Raises:
        UsageError: there is no GPU, or the bundle has nothing that runs on it in this precision.
    """
    if precision == "int8":
        raise UsageError(
            f"precision is int8, but {runtime} computes in fp32, fp16 or bf16: "
            "serve with precision auto"
        )
    if obstacle := gpu_obstacle():
        raise UsageError(f"runtime is {runtime}, but {obstacle}: serve with runtime auto")
    memory = CudaMemory()
    return DeviceNetwork(
        manifest, _open_runner(bundle, manifest, runtime, precision, memory), memory
    )


def _open_runner(
    bundle: Path,
    manifest: Manifest,
    runtime: Runtime,
    precision: FloatPrecision,
    memory: CudaMemory,
) -> Runner:
    if runtime == "onnxruntime_cuda":
        return OnnxRunner(bundle, manifest, precision, "cuda")
    try:
        return TensorRTRunner(bundle, manifest, precision, memory)
    except UsageError as error:
        raise UsageError(f"{error}, {_OTHERWISE}") from error

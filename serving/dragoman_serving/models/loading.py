"""Opens an engine for a bundle, with a layout that fits this machine."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from dragoman.kernel.errors import DragomanError, UsageError
from dragoman.kernel.manifest import Dimensions, Manifest, SpecialIds
from dragoman.kernel.processors import usable_cores
from dragoman_serving.engine.batching.engine import Engine
from dragoman_serving.engine.batching.statistics import Statistics
from dragoman_serving.engine.compiled.compiled_network import NativeNetwork
from dragoman_serving.engine.compiled.cpu import exact_int8_products
from dragoman_serving.engine.compiled.library import MOST_BEST, choose_instruction_set, load
from dragoman_serving.engine.compiled.weights import sizes_obstacle
from dragoman_serving.engine.errors import EngineFailure
from dragoman_serving.engine.network import Network
from dragoman_serving.engine.runtimes.device.gpu import (
    choose_gpu_runtime,
    open_gpu_network,
    runtime_obstacle,
)
from dragoman_serving.engine.runtimes.onnx_session import OnnxSession
from dragoman_serving.engine.runtimes.session_decoding import Sessions
from dragoman_serving.engine.settings import BatchLimits, EngineSettings, Precision, Runtime, Tuning
from dragoman_serving.scoring.compiled_scoring import NativeScoring
from dragoman_serving.scoring.token_pair import PairScoring

log = logging.getLogger(__name__)

GPU_RUNTIMES = ("onnxruntime_cuda", "tensorrt")


@dataclass(frozen=True)
class Layout:
    """The runtime and the precision of a model on this machine.

    Attributes:
        instruction_set: CPU instruction set of the compiled code; None for other runtimes.
    """

    runtime: Runtime
    precision: Precision
    instruction_set: str | None = None

    def __str__(self) -> str:
        """A description, such as `int8 (native, avx2)`."""
        names = [name for name in (self.runtime, self.instruction_set) if name is not None]
        return f"{self.precision} ({', '.join(names)})"


@dataclass(frozen=True)
class Opened:
    """A running engine, with its layout and limits on this machine."""

    engine: Engine
    layout: Layout
    limits: BatchLimits
    scoring: PairScoring | None
    """Scores given translations; None: the bundle's graph is used."""


def open_engine(
    bundle: Path,
    manifest: Manifest,
    settings: EngineSettings,
    special_ids: SpecialIds | None = None,
    on_failure: Callable[[EngineFailure], None] | None = None,
    statistics: Statistics | None = None,
) -> Opened:
    """Load a bundle and start an engine over it.

    Args:
        bundle: folder of the bundle.
        manifest: its manifest, checked.
        settings: settings of the engine.
        special_ids: replaces the special ids of the manifest.
        on_failure: see `Engine`.
        statistics: see `Engine`.

    Raises:
        UsageError: the bundle cannot be loaded, or the settings are not available here.
    """
    load()  # searches run in compiled code, with every runtime
    if manifest.limits.top_k > MOST_BEST:
        raise UsageError(
            f"{bundle}: limits.top_k is {manifest.limits.top_k}, more than the maximum of "
            f"{MOST_BEST}: export it with a smaller beam width"
        )
    layout = choose_layout(settings, bundle, manifest)
    try:
        network = _open_network(bundle, manifest, settings, layout)
    except DragomanError as error:
        if settings.runtime != "auto" or layout.runtime not in GPU_RUNTIMES:
            raise
        log.warning("%s is not used: %s", layout.runtime, error)
        layout = choose_cpu_layout(_trusted(settings, bundle, manifest), manifest.dimensions)
        network = _open_network(bundle, manifest, settings, layout)
    limits = batch_limits(settings, manifest.dimensions, layout.runtime)
    if network.most_rows is not None:
        limits = replace(limits, rows=min(limits.rows, network.most_rows))
    ids = special_ids or manifest.special_ids
    engine = Engine(
        network,
        ids,
        _workers(settings, layout),
        limits,
        on_failure,
        settings.tuning,
        statistics,
    )
    scoring = None
    if isinstance(network, NativeNetwork):
        scoring = NativeScoring(network, ids, manifest.alignment)
    return Opened(engine, layout, limits, scoring)


def _workers(settings: EngineSettings, layout: Layout) -> int:
    if layout.runtime not in GPU_RUNTIMES:
        return worker_threads(settings)
    if settings.workers not in (None, 1):
        raise UsageError(
            f"workers is {settings.workers}, but a GPU runs a single worker: "
            "serve with workers auto"
        )
    return 1


def worker_threads(settings: EngineSettings) -> int:
    """Returns the number of workers of an engine on the CPU."""
    return settings.workers or min(settings.tuning.workers_most, usable_cores())


def _open_network(
    bundle: Path, manifest: Manifest, settings: EngineSettings, layout: Layout
) -> Network:
    precision, workers = layout.precision, _workers(settings, layout)
    if layout.runtime == "native":
        return NativeNetwork(bundle, manifest, workers)
    if layout.runtime == "onnxruntime_cuda" or layout.runtime == "tensorrt":
        return open_gpu_network(bundle, manifest, layout.runtime, precision)
    lone_threads = settings.lone_threads or default_lone_threads(
        manifest.dimensions, workers, settings.tuning
    )
    lone = None
    if lone_threads > 1:
        lone = OnnxSession(bundle, manifest, precision, lone_threads)
    return Sessions(OnnxSession(bundle, manifest, precision, threads=1), lone)


def choose_layout(settings: EngineSettings, bundle: Path, manifest: Manifest) -> Layout:
    """Returns the layout that settings give on this machine.

    Raises:
        UsageError: the settings are not available for this model on this machine.
    """
    runtime = settings.runtime
    on_gpu: Precision = "fp16" if settings.precision == "auto" else settings.precision
    if runtime == "onnxruntime_cuda" or runtime == "tensorrt":
        if obstacle := runtime_obstacle(runtime, bundle, manifest, on_gpu):
            raise UsageError(f"runtime is {runtime}, but {obstacle}: serve with runtime auto")
        return Layout(runtime, on_gpu)
    # Graphs and plans for GPUs are made from the fp32 graphs.
    trusted = settings.precision != "auto" or not manifest.failed_checks("fp32")
    if runtime == "auto" and trusted and (chosen := choose_gpu_runtime(bundle, manifest, on_gpu)):
        return Layout(chosen, on_gpu)
    return choose_cpu_layout(_trusted(settings, bundle, manifest), manifest.dimensions)


def _trusted(settings: EngineSettings, bundle: Path, manifest: Manifest) -> EngineSettings:
    """Settings for the CPU without precisions whose checks failed, unless explicitly chosen."""
    failed = manifest.failed_checks("int8")
    if settings.precision != "auto" or not failed:
        return settings
    if manifest.failed_checks("fp32"):
        raise UsageError(
            f"{bundle}: checks failed in int8 and in fp32: convert it again, or name a precision "
            "to use it anyway"
        )
    log.warning("%s: int8 is not used: %d of its checks failed", bundle, failed)
    return replace(settings, precision="fp32")


def choose_cpu_layout(settings: EngineSettings, sizes: Dimensions) -> Layout:
    """Returns the layout on this machine's CPU: compiled code in int8 if possible.

    Raises:
        UsageError: the settings are not available for this model on this machine.
    """
    precision = settings.precision
    if precision in ("fp16", "bf16", "fp8"):
        raise UsageError(
            f"precision is {precision}, which is for GPUs, and no GPU here can be used with it: "
            "serve with precision auto"
        )
    if settings.runtime != "onnxruntime":
        obstacle = "it computes in int8" if precision == "fp32" else sizes_obstacle(sizes)
        if obstacle is None:
            return Layout("native", "int8", choose_instruction_set())
        if settings.runtime == "native":
            raise UsageError(f"runtime is native, but {obstacle}: serve with runtime auto")
    exact = exact_int8_products()
    if precision == "int8" and not exact:
        raise UsageError(
            "precision is int8, but ONNX Runtime's 8-bit products saturate on this CPU (it has no "
            "VNNI): serve with precision auto or fp32"
        )
    if precision == "auto":
        precision = "int8" if exact else "fp32"
    return Layout("onnxruntime", precision)


def default_lone_threads(sizes: Dimensions, workers: int, tuning: Tuning) -> int:
    """Returns the threads of a step that runs alone: all cores, if the model is large enough."""
    return workers if _is_large(sizes, tuning) else 1


def batch_limits(
    settings: EngineSettings, sizes: Dimensions, runtime: Runtime = "native"
) -> BatchLimits:
    """Returns the batch limits that settings give for a model."""
    tuning = settings.tuning
    is_large = _is_large(sizes, tuning)
    on_cpu = tuning.rows_large if is_large else tuning.rows_small
    rows = settings.max_rows or (tuning.rows_gpu if runtime in GPU_RUNTIMES else on_cpu)
    single_rows = 0 if is_large else tuning.single_rows
    return BatchLimits(rows, settings.max_waiting, single_rows, settings.max_kinds)


def _is_large(sizes: Dimensions, tuning: Tuning) -> bool:
    per_layer = 6 * sizes.model_size**2 + 2 * sizes.model_size * sizes.feed_forward_size
    weights = sizes.decoder_layers * per_layer + sizes.vocab_size * sizes.model_size
    return weights >= tuning.large_weights

"""Builds TensorRT engines ("plans") from a bundle's graphs.

A plan is tied to one release of the library, one kind of GPU, one precision and the bundle's own
weights; the manifest records which. The cache length C is fixed in a plan, so the decoder has
several plans.

Source: https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/advanced.html
"""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import onnx
from dragoman_serving.engine.runtimes.half_precision import lower_precision
from dragoman_serving.engine.runtimes.tensorrt_library import (
    LibraryName,
    TensorRT,
    load,
    local_compute_capability,
)
from dragoman_serving.engine.settings import Precision, QuantizedPrecision

from dragoman.kernel.errors import DragomanError, UsageError
from dragoman.kernel.manifest import (
    INT8_FORMAT_VERSION,
    Limits,
    Manifest,
    PlanEntry,
    Profile,
    sha256,
)
from dragoman.kernel.replacement import check_file, replacing
from dragoman.kernel.tensors import best_name, cache_tensors, plain_name, plan_name
from dragoman_export.tensorrt.plain_cache import without_scatter
from dragoman_export.tensorrt.quantized_products import Products, quantize_products

log = logging.getLogger(__name__)

_CACHE_TOKENS = (64, 128)
"""Cache lengths C with a plan, besides the longest that a request may need."""
_USUAL_TOKENS = 32
_USUAL_ROWS = 32


class BuildFailed(DragomanError):
    """TensorRT refused a graph, or could not build it."""

    exit_code = 1


@dataclass(frozen=True)
class PlanSettings:
    """Which plans to build.

    Attributes:
        precision: of products, attention and the cache; everything else stays in fp32. With int8
            and fp8 it applies to products only, and attention and the cache are in fp16.
        compute_capability: of the GPUs to build for, such as `8.9`; None for the installed GPU.
        library: which TensorRT; None for the installed one.
        max_rows: maximum number of rows of a step.
        cache_tokens: cache lengths C; empty for a choice that fits the bundle's limits.
        workspace_bytes: maximum scratch memory of a plan; 0 leaves it to the library.
        timing_cache: file that keeps measurements from one build to the next.
        plain: build encoder and decoder for Triton's own backend, not for the engine.
        calibration: ids of source texts, tag and end symbol included, from which the scales of int8
            and fp8 are computed.
    """

    precision: Precision = "fp16"
    compute_capability: str | None = None
    library: LibraryName | None = None
    max_rows: int = 256
    cache_tokens: tuple[int, ...] = ()
    workspace_bytes: int = 0
    timing_cache: Path | None = None
    plain: bool = False
    calibration: Sequence[Sequence[int]] = ()

    @property
    def is_quantized(self) -> bool:
        """Whether products use 8-bit numbers."""
        return self.precision in get_args(QuantizedPrecision)

    def __post_init__(self) -> None:
        if self.max_rows < 1:
            raise UsageError(f"max_rows is {self.max_rows}: give 1 or more")
        if self.workspace_bytes < 0:
            raise UsageError(f"workspace_bytes is {self.workspace_bytes}: give 0 or more")
        if self.timing_cache is not None and not self.timing_cache.parent.is_dir():
            raise UsageError(f"{self.timing_cache}: no such folder")
        if self.is_quantized and not self.calibration:
            raise UsageError(
                f"precision is {self.precision}, which needs text for calibration: "
                "give --calibration-text"
            )
        for tokens in self.cache_tokens:
            if tokens < 1:
                raise UsageError(f"cache_tokens is {tokens}: give 1 or more")


@dataclass(frozen=True)
class PlanRequest:
    """One plan to build: its graph, cache length and profiles."""

    graph: str
    profiles: tuple[Profile, ...]
    cache_tokens: int | None = None
    plain: bool = False

    @property
    def name(self) -> str:
        """A name that is valid as a file name."""
        if self.plain:
            return plain_name(self.graph)
        return self.graph if self.cache_tokens is None else f"{self.graph}_c{self.cache_tokens}"


def build_plans(
    bundle: Path, settings: PlanSettings, monitor: Any = None, force: bool = False
) -> Iterator[PlanEntry]:
    """Build the plans that the engine needs, and record each in the bundle's manifest.

    Args:
        bundle: folder of a bundle.
        settings: what to build.
        monitor: TensorRT progress monitor, to show progress.
        force: replace existing plans of the same kind.

    Yields:
        The plans, as they are finished.

    Raises:
        UsageError: the bundle is incomplete or already has such a plan, or TensorRT or the
            requested GPU is not available.
        BuildFailed: TensorRT refused a graph.
    """
    manifest = Manifest.load(bundle)
    if manifest.format_version == INT8_FORMAT_VERSION:
        raise UsageError(
            f"{bundle}: TensorRT cannot read weights that are stored in int8: export the model "
            "again with --storage fp16"
        )
    if manifest.dimensions.is_recurrent:
        raise UsageError(
            f"{bundle}: its decoder is an SSRU, for which no TensorRT plans are built: serve it on "
            "the CPU, or with runtime onnxruntime_cuda"
        )
    if not os.access(bundle, os.W_OK):
        raise UsageError(f"{bundle}: is not writable, but the plans are written there")
    library = load(settings.library)
    capability = settings.compute_capability or local_compute_capability()
    files = {
        plan_name(request.name, settings.precision, capability, library.name): request
        for request in requests(manifest, settings)
    }
    for file in files:
        check_file(bundle / file, force)
    products: Products = {}
    if settings.is_quantized:
        # Imports the translation engine, which building alone does not need.
        from dragoman_export.tensorrt.calibration import calibrate

        products = calibrate(bundle, manifest, settings.calibration)
    for file, request in files.items():
        plan = build(bundle, manifest, request, library, settings, capability, products, monitor)
        with replacing(bundle / file) as (partial,):
            partial.write_bytes(plan)
        entry = PlanEntry(
            graph=request.graph,
            file=file,
            sha256=sha256(bundle / file),
            precision=settings.precision,
            cache_tokens=request.cache_tokens,
            plain=request.plain,
            library=library.name,
            version=library.version,
            compute_capability=capability,
            platform=f"{platform.system()}-{platform.machine()}".lower(),
            profiles=request.profiles,
            built_from={
                name: manifest.files[name]
                for name in (manifest.graphs[request.graph].file, manifest.weights)
            },
        )
        manifest = manifest.with_plan(entry)
        manifest.write(bundle)
        yield entry


def requests(manifest: Manifest, settings: PlanSettings) -> list[PlanRequest]:
    """The plans that the engine needs for a bundle."""
    limits, rows = manifest.limits, settings.max_rows
    lengths = settings.cache_tokens or (
        *(tokens for tokens in _CACHE_TOKENS if tokens < limits.max_target_tokens),
        limits.max_target_tokens,
    )
    if max(lengths) < limits.max_target_tokens:
        raise UsageError(
            f"cache_tokens: the longest is {max(lengths)}, but a request may ask for "
            f"{limits.max_target_tokens} tokens"
        )
    if rows < limits.max_beam_width:
        raise UsageError(
            f"max_rows is {rows}, but a beam may be {limits.max_beam_width} wide: give that or more"
        )
    usual = min(_USUAL_ROWS, rows)
    # Beams share their sources, so there may be fewer sources than rows.
    sizes = {"R": (1, usual, rows), "B": (1, usual, rows)}
    encoder = _profile(manifest, "encoder", sizes, limits)
    if settings.plain:
        decoder = _profile(manifest, "decoder", sizes, limits, max(lengths))
        return [
            PlanRequest("encoder", (encoder,), plain=True),
            PlanRequest("decoder", (decoder,), max(lengths), plain=True),
        ]
    # Sources' keys and values are moved like rows, so their lengths count too.
    longest = max(*lengths, limits.max_source_tokens)
    moved = {"R": (1, usual, rows), "N": (1, usual, rows), "C": (1, _USUAL_TOKENS, longest)}
    return [
        PlanRequest("encoder", (encoder,)),
        *(
            PlanRequest("decoder", (_profile(manifest, "decoder", sizes, limits, tokens),), tokens)
            for tokens in sorted(set(lengths))
        ),
        PlanRequest("reorder", (_profile(manifest, "reorder", moved, limits),)),
        *(
            PlanRequest(best_name(k), (_profile(manifest, best_name(k), sizes, limits),))
            for k in limits.best_sizes
        ),
    ]


def _profile(
    manifest: Manifest,
    graph: str,
    sizes: Mapping[str, tuple[int, int, int]],
    limits: Limits,
    cache_tokens: int | None = None,
) -> Profile:
    """Smallest, typical and largest shape of every input."""
    longest = limits.max_source_tokens
    known = {"S": (1, min(_USUAL_TOKENS, longest), longest), **sizes}
    if cache_tokens is not None:
        known["C"] = (cache_tokens,) * 3
    return {
        tensor.name: tuple(
            tuple(known[size][which] if size in known else int(size) for size in tensor.shape)
            for which in range(3)
        )
        for tensor in manifest.graphs[graph].inputs
    }


def build(
    bundle: Path,
    manifest: Manifest,
    request: PlanRequest,
    library: TensorRT,
    settings: PlanSettings,
    compute_capability: str,
    products: Products | None = None,
    monitor: Any = None,
) -> bytes:
    """Build one plan; `products` are needed for int8 and fp8.

    Raises:
        UsageError: the library does not build for that GPU.
        BuildFailed: TensorRT refused the graph, or could not build it.
    """
    trt = library.module
    logger = _logger(trt)
    builder = trt.Builder(logger)
    network = library.create_network(builder)
    parse(bundle, manifest, request, settings.precision, trt, network, logger, products)
    config = builder.create_builder_config()
    library.build_for(config, compute_capability)
    if hasattr(trt.BuilderFlag, "TF32"):
        config.clear_flag(trt.BuilderFlag.TF32)  # fp32 means fp32
    if settings.workspace_bytes:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, settings.workspace_bytes)
    for sizes in request.profiles:
        profile = builder.create_optimization_profile()
        for name, (smallest, usual, largest) in sizes.items():
            profile.set_shape(name, smallest, usual, largest)
        config.add_optimization_profile(profile)
    if monitor is not None:
        config.progress_monitor = monitor
    _begin_timing_cache(config, settings.timing_cache)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise BuildFailed(f"{request.name}: TensorRT could not build it: {logger.last_error}")
    _keep_timing_cache(config, settings.timing_cache)
    return bytes(plan)


def parse(
    bundle: Path,
    manifest: Manifest,
    request: PlanRequest,
    precision: Precision,
    trt: Any,
    network: Any,
    logger: Any,
    products: Products | None = None,
) -> None:
    """Read a graph into a network; `products` are needed for int8 and fp8.

    Raises:
        BuildFailed: TensorRT's parser refuses it; the message names the node.
    """
    path = bundle / manifest.graphs[request.graph].file
    model = onnx.load(path, load_external_data=False)
    cache = cache_tensors(manifest.dimensions.decoder_layers)
    if precision == "int8" or precision == "fp8":
        model = lower_precision(model, "fp16", cache)
        model = quantize_products(model, (products or {}).get(request.graph, {}), precision)
    elif precision != "fp32":
        model = lower_precision(model, precision, cache)
    if request.cache_tokens is not None:
        _fix_cache_tokens(model, request.cache_tokens)
        if request.plain:
            model = without_scatter(model, request.cache_tokens)
    parser = trt.OnnxParser(network, logger)
    # The weights are located relative to the folder of the path.
    if not parser.parse(model.SerializeToString(), str(path)):
        errors = map(parser.get_error, range(parser.num_errors))
        why = "; ".join(f"{error.node_operator()}: {error.desc()}" for error in errors)
        raise BuildFailed(f"{path}: TensorRT refuses it: {why}")
    # Attention kernels exist only in half precision; in fp32, attention is decomposed.
    for layer in map(network.get_layer, range(network.num_layers)):
        if layer.type == trt.LayerType.ATTENTION_INPUT:
            layer.__class__ = trt.IAttentionInputLayer  # the bindings' way to downcast a layer
            layer.attention.decomposable = True


def _fix_cache_tokens(model: onnx.ModelProto, tokens: int) -> None:
    for value in (*model.graph.input, *model.graph.output):
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param == "C":
                dimension.dim_value = tokens


def _logger(trt: Any) -> Any:
    class Logger(trt.ILogger):  # type: ignore[misc]
        """Logs TensorRT's messages, and remembers the last error."""

        def __init__(self) -> None:
            super().__init__()
            self.last_error = "it gives no reason"

        def log(self, severity: Any, message: str) -> None:
            if severity <= trt.ILogger.Severity.ERROR:
                self.last_error = message
            elif severity == trt.ILogger.Severity.WARNING:
                log.debug("TensorRT: %s", message)

    return Logger()


def _begin_timing_cache(config: Any, path: Path | None) -> None:
    if path is None:
        return
    try:
        held = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    config.set_timing_cache(config.create_timing_cache(held), ignore_mismatch=False)


def _keep_timing_cache(config: Any, path: Path | None) -> None:
    cache = None if path is None else config.get_timing_cache()
    if path is not None and cache is not None:
        path.write_bytes(bytes(cache.serialize()))

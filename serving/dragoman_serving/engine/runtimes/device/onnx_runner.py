"""Runs a bundle's graphs with ONNX Runtime, bound to device memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnxruntime

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import GraphEntry, Manifest
from dragoman.kernel.tensors import cache_tensors
from dragoman_serving.engine.runtimes.device.capacities import capacities
from dragoman_serving.engine.runtimes.device.device_memory import DeviceTensor, Memory
from dragoman_serving.engine.settings import FloatPrecision

Provider = Literal["cuda", "cpu"]
_PROVIDERS: dict[Provider, tuple[str, dict[str, str]]] = {
    "cpu": ("CPUExecutionProvider", {}),
    # TensorFloat-32 would round fp32 products to ten bits.
    "cuda": ("CUDAExecutionProvider", {"use_tf32": "0"}),
}
_DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_BFLOAT16 = 16
"""ONNX's number of this type, which NumPy lacks."""
_ELEMENT_TYPES: dict[str, Any] = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": _BFLOAT16,
    "int64": np.int64,
}
_MOST_BINDINGS = 500


class OnnxRunner:
    """See `Runner`."""

    most_rows: int | None = None
    pads_steps = False

    def __init__(
        self,
        bundle: Path,
        manifest: Manifest,
        precision: FloatPrecision,
        provider: Provider,
        memory: Memory,
    ) -> None:
        """Load the graphs.

        Args:
            bundle: folder of the bundle.
            manifest: its manifest, checked.
            precision: precision of products, attention and the cache.
            provider: execution provider.
            memory: memory of their inputs and outputs.

        Raises:
            UsageError: a graph cannot be loaded, or this ONNX Runtime has no such provider.
        """
        name, options = _PROVIDERS[provider]
        if name not in onnxruntime.get_available_providers():
            raise UsageError(
                f"this ONNX Runtime has no {name}: install onnxruntime-gpu instead of "
                "onnxruntime, and NVIDIA's driver"
            )
        if provider == "cuda":
            onnxruntime.preload_dlls()  # CUDA's libraries may be in Python packages
        self._provider = provider
        self._memory = memory
        self.cache_dtype = _DTYPES[precision]
        limits, layers = manifest.limits, manifest.dimensions.decoder_layers
        self.source_capacities = capacities(limits.max_source_tokens)
        self.target_capacities = capacities(limits.max_target_tokens)
        self._lowered = cache_tensors(layers) if precision != "fp32" else set[str]()
        self._entries: dict[str, GraphEntry] = {
            name: manifest.graphs[name] for name in manifest.decoding_graphs
        }
        self._sessions: dict[str, onnxruntime.InferenceSession] = {}
        for graph, entry in self._entries.items():
            path = bundle / entry.file
            try:
                self._sessions[graph] = _open(path, precision, self._lowered, (name, options))
            except Exception as error:  # ONNX Runtime has a class for each status code
                raise UsageError(f"{path}: cannot be loaded: {error}") from error
            if self._sessions[graph].get_providers()[0] != name:
                raise UsageError(
                    f"ONNX Runtime has {name}, but cannot use it: are the versions of CUDA's "
                    "libraries and of the driver right?"
                )
        self._bindings: dict[tuple[object, ...], Any] = {}

    def run(self, graph: str, tensors: Mapping[str, DeviceTensor]) -> None:
        """See `Runner`."""
        key = (graph, *tensors.values())
        binding = self._bindings.get(key)
        if binding is None:
            if len(self._bindings) >= _MOST_BINDINGS:
                self._bindings.clear()
            binding = self._bindings[key] = self._bind(graph, tensors)
        # A run has its own stream, which does not wait for ours; the run is synchronous.
        self._memory.synchronize()
        self._sessions[graph].run_with_iobinding(binding)

    def _bind(self, graph: str, tensors: Mapping[str, DeviceTensor]) -> Any:
        entry, binding = self._entries[graph], self._sessions[graph].io_binding()
        for listed, bind in (
            (entry.inputs, binding.bind_input),
            (entry.outputs, binding.bind_output),
        ):
            for name in (tensor.name for tensor in listed):
                device_tensor = tensors[name]
                bind(
                    name,
                    self._provider,
                    0,
                    _ELEMENT_TYPES[device_tensor.dtype],
                    device_tensor.shape,
                    device_tensor.address,
                )
        return binding


def _open(
    path: Path,
    precision: FloatPrecision,
    lowered: set[str],
    provider: tuple[str, dict[str, str]],
) -> onnxruntime.InferenceSession:
    options = session_options(path.parent)
    if precision == "fp32":
        return onnxruntime.InferenceSession(str(path), options, providers=[provider])
    import onnx  # imported only when needed: no other serving code uses it

    from dragoman_serving.engine.runtimes.half_precision import lower_precision

    model = lower_precision(onnx.load(path, load_external_data=False), precision, lowered)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[provider])


def session_options(folder: Path) -> onnxruntime.SessionOptions:
    """Returns options with the folder of the weights, which a graph given as bytes lacks."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", str(folder)
    )
    return options

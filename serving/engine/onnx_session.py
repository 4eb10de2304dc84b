"""The session on ONNX Runtime, on the CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime

from dragoman.errors import UsageError
from dragoman.manifest import Manifest
from dragoman.tensors import cross_names, past_names, present_names
from serving.engine.cache import Cache, Floats, Ids


class OnnxSession:
    """Runs a bundle's graphs with ONNX Runtime; arrays are bound, not copied."""

    def __init__(self, bundle: Path, manifest: Manifest, threads: int | None = None) -> None:
        """Load the encoder, the decoder step and the reordering.

        Args:
            bundle: folder of the bundle.
            manifest: its manifest, checked.
            threads: threads of each graph; None lets ONNX Runtime choose.

        Raises:
            UsageError: a graph cannot be loaded, or its tensors are not those of the manifest.
        """
        self._encoder = open_graph(bundle, manifest, "encoder", threads)
        self._decoder = open_graph(bundle, manifest, "decoder_topk", threads)
        self._reorder = open_graph(bundle, manifest, "reorder", threads)
        layers = manifest.dimensions.decoder_layers
        self._cross_names = cross_names(layers)
        self._past_names = past_names(layers)
        self._present_names = present_names(layers)
        self._top_k = manifest.limits.top_k

    def encode(self, src_ids: Ids, src_lengths: Ids) -> Cache:
        """See `Session.encode`."""
        inputs = {"input_ids": src_ids, "src_lengths": src_lengths}
        return Cache.begin(self._encoder.run(self._cross_names, inputs), src_lengths)

    def step(self, cache: Cache, input_ids: Ids, positions: Ids) -> tuple[Floats, Ids]:
        """See `Session.step`."""
        binding = self._decoder.io_binding()
        _bind_input(binding, "input_ids", input_ids.reshape(-1, 1))
        _bind_input(binding, "positions", positions)
        _bind_input(binding, "src_lengths", cache.src_lengths)
        for name, part in zip(self._cross_names, cache.cross, strict=True):
            _bind_input(binding, name, part)
        # The cache goes in and comes out in the same place: only then is it updated, not copied.
        for past, present, part in zip(
            self._past_names, self._present_names, cache.past, strict=True
        ):
            _bind_input(binding, past, part)
            _bind_output(binding, present, part)
        top_scores = np.empty((cache.rows, self._top_k), np.float32)
        top_ids = np.empty((cache.rows, self._top_k), np.int64)
        _bind_output(binding, "top_scores", top_scores)
        _bind_output(binding, "top_ids", top_ids)
        self._decoder.run_with_iobinding(binding)
        return top_scores, top_ids

    def reorder(self, cache: Cache, rows: Ids) -> None:
        """See `Session.reorder`."""
        binding = self._reorder.io_binding()
        _bind_input(binding, "rows", rows)
        ordered = [np.empty((len(rows), *part.shape[1:]), np.float32) for part in cache.past]
        for past, part in zip(self._past_names, cache.past, strict=True):
            _bind_input(binding, past, part)
        for present, part in zip(self._present_names, ordered, strict=True):
            _bind_output(binding, present, part)
        self._reorder.run_with_iobinding(binding)
        cache.past = ordered


def open_graph(
    bundle: Path, manifest: Manifest, name: str, threads: int | None = None
) -> onnxruntime.InferenceSession:
    """Load one graph of a bundle and check its tensors' names against the manifest.

    Raises:
        UsageError: it cannot be loaded, or its tensors are not those of the manifest.
    """
    graph = load_graph(bundle, manifest, name, threads)
    entry = manifest.graphs[name]
    for side, found, listed in (
        ("inputs", graph.get_inputs(), entry.inputs),
        ("outputs", graph.get_outputs(), entry.outputs),
    ):
        names, expected = [tensor.name for tensor in found], [tensor.name for tensor in listed]
        if names != expected:
            raise UsageError(f"{bundle / entry.file}: {side} {names}, the manifest says {expected}")
    return graph


def load_graph(
    bundle: Path, manifest: Manifest, name: str, threads: int | None = None
) -> onnxruntime.InferenceSession:
    """Load one graph of a bundle.

    Raises:
        UsageError: the manifest has none of this name, or it cannot be loaded.
    """
    entry = manifest.graphs.get(name)
    if entry is None:
        raise UsageError(f"{bundle}: the manifest has no graph {name!r}")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if threads is not None:
        options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(
            str(bundle / entry.file), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # ONNX Runtime raises a class of its own for each status code
        raise UsageError(f"{bundle / entry.file}: cannot be loaded: {error}") from error


def _bind_input(binding: onnxruntime.IOBinding, name: str, array: npt.NDArray[np.generic]) -> None:
    binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, _address(array))


def _bind_output(binding: onnxruntime.IOBinding, name: str, array: npt.NDArray[np.generic]) -> None:
    binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, _address(array))


def _address(array: npt.NDArray[np.generic]) -> int:
    # A silent copy would be freed before the graph runs.
    if not array.flags.c_contiguous:
        raise ValueError(f"an array of shape {array.shape} is not contiguous")
    return array.ctypes.data

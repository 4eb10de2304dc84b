"""The session with ONNX Runtime, on the CPU."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest
from dragoman.kernel.tensors import best_name, cross_names, past_names, present_names
from dragoman_serving.engine.arrays import Floats, Ids
from dragoman_serving.engine.cache import MOST_BINDINGS, Cache, CacheShape
from dragoman_serving.engine.compiled.compiled_ranking import log_softmax
from dragoman_serving.engine.settings import Precision

if TYPE_CHECKING:
    import onnxruntime

_SUFFIXES: dict[Precision, str] = {"fp32": "", "int8": "_int8"}


class OnnxSession:
    """Runs a bundle's graphs with ONNX Runtime; arrays are bound, not copied."""

    pads_sources = True

    def __init__(
        self,
        bundle: Path,
        manifest: Manifest,
        precision: Precision = "fp32",
        threads: int | None = None,
        graphs: Mapping[str, onnxruntime.InferenceSession] | None = None,
    ) -> None:
        """Load the graphs of the encoder, the decoder step and top-k.

        Args:
            bundle: folder of the bundle.
            manifest: its manifest, checked.
            precision: precision of the products.
            threads: threads of each run; None: ONNX Runtime chooses. With one thread, a run stays
                in the calling thread, so that several threads can share the weights.
            graphs: the bundle's graphs by name, if they are loaded already.

        Raises:
            UsageError: a graph cannot be loaded, or its tensors differ from the manifest.
        """
        suffix = _SUFFIXES[precision]

        def opened(name: str) -> onnxruntime.InferenceSession:
            if graphs is None:
                return open_graph(bundle, manifest, name, threads)
            return _checked(bundle, manifest, name, graphs[name])

        self._encoder, self._decoder = opened(f"encoder{suffix}"), opened(f"decoder{suffix}")
        self._best = {k: opened(best_name(k)) for k in manifest.limits.best_sizes}
        sizes = manifest.dimensions
        self._cross_names = cross_names(sizes.decoder_layers)
        self._past_names = past_names(sizes.decoder_layers, sizes.is_recurrent)
        self._present_names = present_names(sizes.decoder_layers, sizes.is_recurrent)
        self.vocab_size = sizes.vocab_size
        self._of_thread = threading.local()
        limits = manifest.limits
        self.cache_shape = CacheShape(
            parts=len(self._cross_names),
            heads=sizes.heads,
            head_size=sizes.head_size,
            src_tokens=limits.max_source_tokens,
            tgt_tokens=limits.max_target_tokens,
            state_size=sizes.state_size,
        )

    def encode(self, src_ids: Ids, src_lengths: Ids) -> list[Floats]:
        """See `Session.encode`."""
        inputs = {"input_ids": src_ids, "src_lengths": src_lengths}
        cross: list[Floats] = self._encoder.run(self._cross_names, inputs)
        return cross

    def step(self, cache: Cache, input_ids: Ids, positions: Ids) -> Floats:
        """See `Session.step`."""
        key = (id(self), *cache.layout)
        bound = cache.bindings.get(key)
        if not isinstance(bound, _Bound):
            if len(cache.bindings) >= MOST_BINDINGS:
                cache.bindings.clear()
            bound = cache.bindings[key] = self._bind(cache)
        bound.input_ids[:] = input_ids
        bound.positions[:] = positions
        self._decoder.run_with_iobinding(bound.binding)
        return bound.logits

    def argmax(self, logits: Floats) -> Ids:
        """See `Session.argmax`."""
        ids: Ids = logits.argmax(axis=1)
        return ids

    def best(self, logits: Floats, number: int) -> tuple[Floats, Ids]:
        """See `Session.best`."""
        graph = next(graph for k, graph in self._best.items() if k >= number)
        top_scores, top_ids = graph.run(["top_scores", "top_ids"], {"logits": logits})
        return top_scores, top_ids

    def log_probs(self, logits: Floats, rows: Ids) -> Floats:
        """See `Session.log_probs`."""
        return log_softmax(logits[rows])

    def _bind(self, cache: Cache) -> _Bound:
        rows, past = cache.rows, cache.past
        input_ids, positions = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        logits = self._logits(rows)
        # Input and output of the cache have the same address, so it is updated, not copied.
        inputs: dict[str, npt.NDArray[np.generic]] = {
            "input_ids": input_ids,
            "positions": positions,
            "src_lengths": cache.src_lengths,
            **dict(zip(self._cross_names, cache.cross, strict=True)),
            **dict(zip(self._past_names, past, strict=True)),
        }
        outputs: dict[str, npt.NDArray[np.generic]] = {
            **dict(zip(self._present_names, past, strict=True)),
            "logits": logits,
        }
        binding = self._decoder.io_binding()
        for name, array in inputs.items():
            binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, _address(array))
        for name, array in outputs.items():
            binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, _address(array))
        return _Bound(binding, input_ids, positions, logits)

    def _logits(self, rows: int) -> Floats:
        """Memory for a step's scores, one per thread, because it is read before the next step."""
        memory: Floats | None = getattr(self._of_thread, "logits", None)
        if memory is None or len(memory) < rows:
            memory = self._of_thread.logits = np.empty((rows, self.vocab_size), np.float32)
        return memory[:rows]


@dataclass(frozen=True)
class _Bound:
    """One layout of a cache's memory, bound as the decoder's inputs and outputs."""

    binding: onnxruntime.IOBinding
    input_ids: Ids
    positions: Ids
    logits: Floats


def open_graph(
    bundle: Path, manifest: Manifest, name: str, threads: int | None = None
) -> onnxruntime.InferenceSession:
    """Load one graph of a bundle and check its tensors' names against the manifest.

    Raises:
        UsageError: it cannot be loaded, or its tensors differ from the manifest.
    """
    return _checked(bundle, manifest, name, load_graph(bundle, manifest, name, threads))


def _checked(
    bundle: Path, manifest: Manifest, name: str, graph: onnxruntime.InferenceSession
) -> onnxruntime.InferenceSession:
    """A graph whose tensors have the manifest's names; see `open_graph`."""
    entry = manifest.graphs[name]
    for side, tensors, listed in (
        ("inputs", graph.get_inputs(), entry.inputs),
        ("outputs", graph.get_outputs(), entry.outputs),
    ):
        names, expected = [tensor.name for tensor in tensors], [tensor.name for tensor in listed]
        if names != expected:
            raise UsageError(f"{bundle / entry.file}: {side} {names}, the manifest says {expected}")
    return graph


def load_graph(
    bundle: Path, manifest: Manifest, name: str, threads: int | None = None, spinning: bool = True
) -> onnxruntime.InferenceSession:
    """Load one graph of a bundle.

    Args:
        bundle: folder of the bundle.
        manifest: its manifest, checked.
        name: of the graph.
        threads: as in `OnnxSession`.
        spinning: whether threads without work spin for a while. Otherwise they sleep at once: a run
            may take longer, but loading takes half the processor time.

    Raises:
        UsageError: the manifest has no graph of this name, or it cannot be loaded.
    """
    import onnxruntime  # imported only when needed, because it takes time and memory

    entry = manifest.graphs.get(name)
    if entry is None:
        raise UsageError(f"{bundle}: the manifest has no graph {name!r}")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if threads is not None:
        options.intra_op_num_threads = threads
    if spinning:
        # Each graph has its own threads. After a run they would keep spinning for a while, on the
        # cores that the next graph needs.
        options.add_session_config_entry("session.force_spinning_stop", "1")
    else:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(
            str(bundle / entry.file), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # ONNX Runtime has a class for each status code
        raise UsageError(f"{bundle / entry.file}: cannot be loaded: {error}") from error


def _address(array: npt.NDArray[np.generic]) -> int:
    # A silent copy would be freed before the graph runs.
    if not array.flags.c_contiguous:
        raise ValueError(f"an array of shape {array.shape} is not contiguous")
    return array.ctypes.data

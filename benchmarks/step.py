"""Where the time of one decoder step goes, and how far it is from what the machine could do.

Run from the project's folder, with nothing else at work on the machine:

    python -m benchmarks.step

For the base size with random weights and for the shipped model, in int8, on one core: ONNX
Runtime's own profile of a step, by kind of node, and Python's share of it in the engine. The limits
are measured on the spot: memory bandwidth by reading a large array, 8-bit arithmetic by one large
product.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from benchmarks.base_model import write_random_bundle
from benchmarks.report import markdown_table
from dragoman.manifest import Dimensions, Manifest
from dragoman.tensors import past_names, present_names
from export.graph_builder import IR_VERSION, OPSET
from export.int8 import CONTRIB
from serving.engine.batch import Batch
from serving.engine.cache import Cache, Floats, Ids
from serving.engine.job import Job
from serving.engine.onnx_session import OnnxSession
from serving.engine.sentence import SearchOptions, Sentence
from serving.engine.statistics import Statistics

SHIPPED = Path("model_repository/translate/1/bundle")
SRC_TOKENS, POSITION = 32, 16
_RUNS = 60
_KINDS = {
    "MatMulIntegerToFloat": "products",
    "Attention": "attention",
    "RMSNormalization": "norms",
    "ReduceMean": "norms",
    "Sub": "norms",
    "QuantizeLinear": "quantising",
    "Abs": "quantising",
    "ReduceMax": "quantising",
    "Mul": "quantising",
    "TensorScatter": "cache",
}
_LOGITS = "logits"
_ORDER = ("products", _LOGITS, "attention", "norms", "quantising", "cache", "rest")


@dataclass(frozen=True)
class StepTimes:
    """Of one step, in milliseconds."""

    by_kind: dict[str, float]
    session: float
    batch: float
    """With Python's part."""


class _StepBench:
    """One model's step at chosen numbers of rows."""

    def __init__(self, bundle: Path) -> None:
        self._bundle = bundle
        self._manifest = Manifest.load(bundle)
        self._session = OnnxSession(bundle, self._manifest, "int8", threads=1)

    @property
    def sizes(self) -> Dimensions:
        return self._manifest.dimensions

    def measure(self, rows: int) -> StepTimes:
        session_s: list[float] = []
        timed = _Timed(self._session, session_s)
        batch = self._batch(rows)
        batch_s = []
        for _ in range(_RUNS):
            begin = time.perf_counter()
            batch.step(timed)
            batch_s.append(time.perf_counter() - begin)
        session_ms, batch_ms = (1e3 * statistics.median(taken) for taken in (session_s, batch_s))
        return StepTimes(self._profile(rows), session_ms, batch_ms)

    def _batch(self, rows: int) -> Batch:
        """Sentences that are some way into their translations."""
        ids = self._manifest.special_ids
        random = np.random.default_rng(0)
        src_ids = random.integers(len(ids.tags) + 6, self.sizes.vocab_size, (rows, SRC_TOKENS))
        src_lengths = np.full(rows, SRC_TOKENS)
        never = type(ids)(tags=ids.tags, end=-1)
        batch = Batch(self._session.cache_shape, 1, never, Statistics())
        most = POSITION + 2 * _RUNS
        jobs = [Job(Sentence(tuple(src.tolist()), most, SearchOptions(1, 0.0))) for src in src_ids]
        batch.join(jobs, self._session.encode(src_ids, src_lengths), src_lengths)
        return batch

    def _profile(self, rows: int) -> dict[str, float]:
        """Milliseconds by kind of node, from ONNX Runtime's own clock."""
        with tempfile.TemporaryDirectory() as folder:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            options.enable_profiling = True
            options.profile_file_prefix = f"{folder}/step"
            file = self._bundle / self._manifest.graphs["decoder_int8"].file
            graph = onnxruntime.InferenceSession(str(file), options)
            feeds = _feeds(graph, rows, self.sizes)
            logits = np.empty((rows, self.sizes.vocab_size), np.float32)
            binding = _bind(graph, feeds, logits, self.sizes)
            for _ in range(_RUNS):
                graph.run_with_iobinding(binding)
            events = json.loads(Path(graph.end_profiling()).read_text(encoding="utf-8"))
        nodes = [e for e in events if e.get("cat") == "Node" and e["name"].endswith("kernel_time")]
        totals: Counter[str] = Counter()
        for event in nodes[len(nodes) // 2 :]:
            totals[_kind(event["args"], self.sizes.vocab_size)] += event["dur"]
        return {kind: us / 1e3 / (_RUNS / 2) for kind, us in totals.items()}


class _Timed:
    """A session that notes how long its steps take."""

    def __init__(self, session: OnnxSession, taken_s: list[float]) -> None:
        self.cache_shape = session.cache_shape
        self.encode, self.best = session.encode, session.best
        self._session, self._taken_s = session, taken_s

    def step(self, cache: Cache, input_ids: Ids, positions: Ids) -> Floats:
        begin = time.perf_counter()
        logits = self._session.step(cache, input_ids, positions)
        self._taken_s.append(time.perf_counter() - begin)
        return logits


def _kind(arguments: dict[str, object], vocab_size: int) -> str:
    kind = _KINDS.get(str(arguments["op_name"]), "rest")
    shapes: list[dict[str, list[int]]] = arguments["output_type_shape"]  # type: ignore[assignment]
    wide = any(shape and shape[-1] == vocab_size for s in shapes for shape in s.values())
    return _LOGITS if wide and kind != "rest" else kind


def _feeds(
    graph: onnxruntime.InferenceSession, rows: int, sizes: Dimensions
) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
    letters = {"R": rows, "B": rows, "S": SRC_TOKENS, "C": 2 * POSITION}
    random = np.random.default_rng(0)
    feeds = {}
    for tensor in graph.get_inputs():
        shape = [letters.get(size, size) for size in tensor.shape]
        if tensor.type == "tensor(float)":
            feeds[tensor.name] = random.standard_normal(shape).astype(np.float32)
        else:
            full = {"positions": POSITION, "src_lengths": SRC_TOKENS}.get(tensor.name, 7)
            feeds[tensor.name] = np.full(shape, full, np.int64)
    return feeds


def _bind(
    graph: onnxruntime.InferenceSession,
    feeds: dict[str, np.ndarray],  # type: ignore[type-arg]
    logits: Floats,
    sizes: Dimensions,
) -> onnxruntime.IOBinding:
    """Bind the cache in and out in one place, as the engine does; else it would be copied."""
    binding = graph.io_binding()
    present = dict(
        zip(present_names(sizes.decoder_layers), past_names(sizes.decoder_layers), strict=True)
    )
    outputs = {"logits": logits, **{name: feeds[past] for name, past in present.items()}}
    for bind, arrays in ((binding.bind_input, feeds), (binding.bind_output, outputs)):
        for name, array in arrays.items():
            bind(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
    return binding


def step_weights(sizes: Dimensions) -> int:
    """Weights that a decoder step multiplies by, a byte each in int8."""
    per_layer = 6 * sizes.model_size**2 + 2 * sizes.model_size * sizes.feed_forward_size
    return sizes.decoder_layers * per_layer + sizes.vocab_size * sizes.model_size


def memory_gb_per_s() -> float:
    """What one core reads from memory, in 1e9 bytes a second."""
    large = np.ones(100_000_000, np.float32)
    return large.nbytes / _fastest_s(large.max) / 1e9


def int8_gmac_per_s() -> float:
    """What one core multiplies in 8 bits, in 1e9 a second, by one large product."""
    rows, inner, columns = 512, 1024, 1024
    random = np.random.default_rng(0)
    constants = {
        "weight": random.integers(-127, 128, (inner, columns)).astype(np.int8),
        "scale": np.float32(1.0),
        "scales": np.ones(columns, np.float32),
        "zero": np.uint8(128),
        "zeros": np.zeros(columns, np.int8),
    }
    names = ["codes", "weight", "scale", "scales", "zero", "zeros"]
    graph = helper.make_graph(
        [helper.make_node("MatMulIntegerToFloat", names, ["product"], domain=CONTRIB)],
        "product",
        [helper.make_tensor_value_info("codes", TensorProto.UINT8, [rows, inner])],
        [helper.make_tensor_value_info("product", TensorProto.FLOAT, [rows, columns])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
    model = helper.make_model(graph, ir_version=IR_VERSION, opset_imports=opsets)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    feeds = {"codes": random.integers(0, 256, (rows, inner)).astype(np.uint8)}
    return rows * inner * columns / _fastest_s(lambda: session.run(None, feeds)) / 1e9


def _fastest_s(run: Callable[[], object], times: int = 20) -> float:
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begin)
    return min(taken)


def report(name: str, bench: _StepBench, rows: int, limits: tuple[float, float]) -> list[str]:
    """A line of the table."""
    times = bench.measure(rows)
    bandwidth, arithmetic = limits
    weights = step_weights(bench.sizes)
    limit_ms = max(weights / bandwidth, weights * rows / arithmetic) / 1e6
    python = 1 - times.session / times.batch
    kinds = [f"{times.by_kind.get(kind, 0.0):.2f}" for kind in _ORDER]
    return [
        *(name, str(rows), f"{times.batch:.2f}", *kinds, f"{python:.0%}"),
        *(f"{limit_ms:.2f}", f"{times.session / limit_ms:.1f}"),
    ]


def main() -> None:
    """Print the limits and a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.step", description=__doc__)
    parser.add_argument("--bundle", type=Path, default=SHIPPED, help=f"default: {SHIPPED}")
    arguments = parser.parse_args()
    limits = memory_gb_per_s(), int8_gmac_per_s()
    print(f"One core: {limits[0]:.1f} GB/s from memory, {limits[1]:.0f} 8-bit GMAC/s.\n")
    with tempfile.TemporaryDirectory() as folder:
        benches = {
            "base": _StepBench(write_random_bundle(Path(folder))),
            "shipped": _StepBench(arguments.bundle),
        }
        lines = [
            report(name, bench, rows, limits)
            for name, bench in benches.items()
            for rows in (1, 8, 64)
        ]
    head = ["model", "rows", "step ms", *_ORDER, "Python", "limit ms", "session over limit"]
    print(markdown_table(head, lines))


if __name__ == "__main__":
    main()

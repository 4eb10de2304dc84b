"""Where the time of one decoder step goes, and how far it is from the machine's limits.

It measures the base size with random weights and the shipped model, with the native runtime, on one
core: the time of each kind of work in the compiled code, Python's share in the engine, and the same
step on ONNX Runtime, in int8 too, greedily and with beams of four. The limits are measured in the
same run: memory bandwidth by reading a large array, 8-bit arithmetic by one large product in ONNX
Runtime.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
from dragoman_export.graphs.graph_builder import IR_VERSION, OPSET
from dragoman_export.graphs.int8 import CONTRIB
from dragoman_serving.engine.batching.batch import Batch
from dragoman_serving.engine.batching.job import Job
from dragoman_serving.engine.batching.pace import PaceMeter
from dragoman_serving.engine.batching.statistics import Statistics
from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.compiled.compiled_network import NativeNetwork
from dragoman_serving.engine.compiled.library import SECTIONS
from dragoman_serving.engine.network import Network
from dragoman_serving.engine.runtimes.onnx_session import OnnxSession
from dragoman_serving.engine.runtimes.session_decoding import Sessions
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from onnx import TensorProto, helper, numpy_helper

from dragoman.kernel.manifest import Dimensions, Manifest
from lab.measurement import BUNDLE, Results, fastest_s, memory_gb_per_s, program, seconds
from lab.peers.models.base_model import write_random_bundle
from lab.report import markdown_table, search_name

SRC_TOKENS, POSITION = 32, 16
_RUNS = 60
_CASES = ((1, 1), (8, 1), (64, 1), (64, 4))
"""Sentences and beam widths."""
_ORDER = (*SECTIONS[:-1], "rest")


@dataclass(frozen=True)
class StepTimes:
    """Times of one step, in milliseconds."""

    by_kind: dict[str, float]
    compiled: float
    """The compiled code."""
    batch: float
    """The step with Python's part."""
    onnx_batch: float
    """The same on ONNX Runtime, in int8."""


class _StepBench:
    """One model's step at given numbers of rows."""

    def __init__(self, bundle: Path) -> None:
        self._manifest = Manifest.load(bundle)
        self._network = NativeNetwork(bundle, self._manifest)
        self._onnx = Sessions(OnnxSession(bundle, self._manifest, "int8", threads=1))

    @property
    def sizes(self) -> Dimensions:
        return self._manifest.dimensions

    def measure(self, sentences: int, width: int) -> StepTimes:
        batch, clock = self._batch(sentences, width, self._network), library.load().clock
        ticks = self._network.scratch.ticks
        batch.step(alone=False)  # warm up, so that memory is allocated
        ticks[:] = 0
        begin_ticks, begin = clock(), time.perf_counter()
        batch_ms = _mean_step_ms(batch)
        tick_s = (time.perf_counter() - begin) / (clock() - begin_ticks)
        ms = 1e3 * tick_s / _RUNS * ticks
        *by_kind, compiled_ms = ms.tolist()
        kinds = dict(zip(SECTIONS, by_kind, strict=False))
        kinds["rest"] = compiled_ms - sum(by_kind)
        onnx = self._batch(sentences, width, self._onnx)
        onnx.step(alone=False)
        return StepTimes(kinds, compiled_ms, batch_ms, _mean_step_ms(onnx))

    def _batch(self, sentences: int, width: int, network: Network) -> Batch:
        """Sentences that are partly translated."""
        ids = self._manifest.special_ids
        random = np.random.default_rng(0)
        src_ids = random.integers(len(ids.tags) + 6, self.sizes.vocab_size, (sentences, SRC_TOKENS))
        never = type(ids)(tags=ids.tags, end=-1)
        batch = Batch(network.begin(width, never, sentences), Statistics(), PaceMeter(1))
        most = POSITION + 2 * _RUNS
        options = SearchOptions(width, 0.0)
        jobs = [Job(Sentence(tuple(src.tolist()), most, options)) for src in src_ids]
        batch.join(jobs, alone=False)
        return batch


def _mean_step_ms(batch: Batch) -> float:
    return 1e3 / _RUNS * sum(seconds(lambda: batch.step(alone=False)) for _ in range(_RUNS))


def step_weights(sizes: Dimensions) -> int:
    """Number of weights that a decoder step uses, one byte each in int8."""
    per_layer = 6 * sizes.model_size**2 + 2 * sizes.model_size * sizes.feed_forward_size
    return sizes.decoder_layers * per_layer + sizes.vocab_size * sizes.model_size


def int8_gmac_per_s() -> float:
    """8-bit arithmetic of one core, in 1e9 multiply-adds per second, by one large product."""
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
    return rows * inner * columns / fastest_s(lambda: session.run(None, feeds)) / 1e9


def report(
    name: str, bench: _StepBench, sentences: int, width: int, limits: tuple[float, float]
) -> list[str]:
    """A row of the table."""
    times, rows = bench.measure(sentences, width), sentences * width
    bandwidth, arithmetic = limits
    weights = step_weights(bench.sizes)
    limit_ms = max(weights / bandwidth, weights * rows / arithmetic) / 1e6
    python = 1 - times.compiled / times.batch
    kinds = [f"{times.by_kind.get(kind, 0.0):.2f}" for kind in _ORDER]
    return [
        *(name, search_name(width), str(rows), f"{times.batch:.2f}", *kinds, f"{python:.0%}"),
        *(f"{limit_ms:.2f}", f"{times.compiled / limit_ms:.1f}", f"{times.onnx_batch:.2f}"),
    ]


@program(BUNDLE)
def main(arguments: argparse.Namespace) -> Results:
    """Print the limits and a table."""
    limits = memory_gb_per_s(), int8_gmac_per_s()
    print(f"One core: {limits[0]:.1f} GB/s from memory, {limits[1]:.0f} 8-bit GMAC/s.\n")
    with tempfile.TemporaryDirectory() as folder:
        benches = {
            "base": _StepBench(write_random_bundle(Path(folder))),
            "shipped": _StepBench(arguments.bundle),
        }
        lines = [
            report(name, bench, sentences, width, limits)
            for name, bench in benches.items()
            for sentences, width in _CASES
        ]
    limits_head = ("limit ms", "compiled over limit", "on ONNX Runtime ms")
    head = ["model", "search", "rows", "step ms", *_ORDER, "Python", *limits_head]
    print(markdown_table(head, lines))
    return {"limits": limits, "rows": [dict(zip(head, line, strict=True)) for line in lines]}


if __name__ == "__main__":
    sys.exit(main())

"""Records the inputs of the products in a bundle's graphs while the engine translates real text.

The scale of an 8-bit product in TensorRT is fixed when a plan is built, so the range of its inputs
must be known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from dragoman_serving.engine.batching.engine import Engine
from dragoman_serving.engine.runtimes.device.device_memory import HostMemory
from dragoman_serving.engine.runtimes.device.device_network import DeviceNetwork
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from onnx import helper

from dragoman.kernel.manifest import Limits, Manifest
from dragoman_export.tensorrt.host_runner import HostRunner, open_session, read_decoding_graphs
from dragoman_export.tensorrt.pruning import prune
from dragoman_export.tensorrt.quantized_products import Floats, Product, Products

QUANTIZED_GRAPHS = ("encoder", "decoder")
_MOST_ROWS, _ROWS_OF_RUN = 1024, 16
"""Rows recorded of a product's inputs, in total and for each run: enough to see their
distribution."""


def calibrate(bundle: Path, manifest: Manifest, sources: Sequence[Sequence[int]]) -> Products:
    """Translate text greedily, and record the inputs of the products.

    Args:
        bundle: folder of a bundle.
        manifest: its manifest.
        sources: ids of source texts, tag and end symbol included, for all directions.
    """
    graphs = read_decoding_graphs(bundle, manifest)
    watcher = _Watcher(graphs, manifest.limits, bundle)
    network = DeviceNetwork(manifest, watcher, HostMemory())
    engine = Engine(network, manifest.special_ids, workers=1)
    try:
        longest = manifest.limits.max_target_tokens
        for future in engine.submit(
            [Sentence(tuple(ids), longest, SearchOptions(beam_width=1)) for ids in sources]
        ):
            future.result()
    finally:
        engine.close()
    products: dict[str, dict[str, Product]] = {}
    for graph in QUANTIZED_GRAPHS:
        weights = _weights(graphs[graph], bundle)
        products[graph] = {
            node.output[0]: Product(weights[node.input[1]], watcher.rows(graph, node.input[0]))
            for node in constant_products(graphs[graph].graph)
        }
    return products


def constant_products(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The products whose second factor is computed from weights alone."""
    moving = {value.name for value in graph.input}
    products = []
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] not in moving:
            products.append(node)
        if moving.intersection(node.input):
            moving.update(node.output)
    return products


def _weights(model: onnx.ModelProto, folder: Path) -> dict[str, Floats]:
    """The second factors of the products, computed."""
    alone = onnx.ModelProto()
    alone.CopyFrom(model)
    names = list(dict.fromkeys(node.input[1] for node in constant_products(model.graph)))
    del alone.graph.output[:], alone.graph.input[:]
    alone.graph.output.extend(map(_floats, names))
    prune(alone.graph)
    return dict(zip(names, open_session(alone, folder).run(names, {}), strict=True))


def _watch(model: onnx.ModelProto) -> onnx.ModelProto:
    """A graph that also outputs the inputs of its products."""
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    listed = {value.name for value in model.graph.output}
    names = dict.fromkeys(node.input[0] for node in constant_products(model.graph))
    watched.graph.output.extend(_floats(name) for name in names if name not in listed)
    return watched


def _floats(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)


class _Watcher(HostRunner):
    """Records some rows of the inputs of products."""

    def __init__(self, graphs: Mapping[str, onnx.ModelProto], limits: Limits, folder: Path) -> None:
        watched = {name: _watch(graphs[name]) for name in QUANTIZED_GRAPHS}
        super().__init__({**graphs, **watched}, limits, folder)
        self._rows: dict[tuple[str, str], list[Floats]] = defaultdict(list)

    def look(self, graph: str, inputs: Mapping[str, Any], others: Mapping[str, Floats]) -> None:
        """See `HostRunner`."""
        for name, values in others.items():
            rows = values.reshape(-1, values.shape[-1])
            if graph == "encoder":
                places = np.arange(inputs["input_ids"].shape[1])
                rows = rows[(places < inputs["src_lengths"][:, None]).ravel()]
            self._rows[graph, name].append(rows[:: len(rows) // _ROWS_OF_RUN + 1].copy())

    def rows(self, graph: str, name: str) -> Floats:
        """The recorded rows [N, K] of one product."""
        rows = np.concatenate(self._rows[graph, name])
        return rows[:: len(rows) // _MOST_ROWS + 1]

"""A decoder whose cache inputs and outputs are separate tensors.

TensorRT's in-place update of a cache needs one buffer for both, which Triton's TensorRT backend is
not known to support. Here, the new keys and values are inserted by Where nodes, which copy the
cache.
"""

from __future__ import annotations

import hashlib

import numpy as np
import onnx
from onnx import helper, numpy_helper


def without_scatter(model: onnx.ModelProto, tokens: int) -> onnx.ModelProto:
    """Replace each TensorScatter along the tokens of a cache [R, H, C, D].

    Args:
        model: a decoder.
        tokens: C.

    Returns:
        Another model; `model` is not changed.
    """
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    graph = plain.graph
    places = _constant(graph, np.arange(tokens).reshape(1, 1, tokens, 1))
    axes = _constant(graph, np.array([1, 2, 3]))
    chosen: dict[str, str] = {}
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        if node.op_type != "TensorScatter":
            nodes.append(node)
            continue
        past, new, positions = node.input
        if positions not in chosen:
            column, here = f"{positions}:column", f"{positions}:here"
            nodes.append(helper.make_node("Unsqueeze", [positions, axes], [column], column))
            nodes.append(helper.make_node("Equal", [places, column], [here], here))
            chosen[positions] = here
        written = helper.make_node("Where", [chosen[positions], new, past], node.output, node.name)
        nodes.append(written)
    del graph.node[:]
    graph.node.extend(nodes)
    return plain


def _constant(
    graph: onnx.GraphProto, value: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
) -> str:
    name = f"plain_{hashlib.sha256(value.tobytes()).hexdigest()[:16]}"
    graph.initializer.append(numpy_helper.from_array(value.astype(np.int64), name))
    return name

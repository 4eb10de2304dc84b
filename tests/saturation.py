"""The int8 graphs of a bundle, changed to compute as on an x86 CPU without VNNI."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from dragoman.kernel.manifest import Manifest, digests

_ZERO_POINT = 128.0


def saturate(bundle: Path) -> None:
    """Make both int8 graphs sum pairs of products in 16 bits, which saturate, on every CPU."""
    manifest = Manifest.load(bundle)
    for name in ("encoder_int8", "decoder_int8"):
        path = bundle / manifest.graphs[name].file
        model = onnx.load(path, load_external_data=False)
        nodes = [part for node in model.graph.node for part in _saturating(node)]
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        path.write_bytes(model.SerializeToString())
    replace(manifest, files=digests(bundle, manifest.files)).write(bundle)


def _saturating(node: NodeProto) -> Iterator[NodeProto]:
    """The node, or for a product of codes [N, K] and [K, M] nodes that saturate."""
    if node.op_type != "MatMulIntegerToFloat":
        yield node
        return
    prefix = node.output[0]
    names = iter(range(100))

    def op(kind: str, *inputs: str, **attributes: Any) -> str:
        output = f"{prefix}/{kind}_{next(names)}"
        made.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def constant(value: Any, dtype: type[np.generic] = np.int64) -> str:
        return op("Constant", value=numpy_helper.from_array(np.array(value, dtype)))

    made: list[NodeProto] = []
    codes = op("Cast", node.input[0], to=TensorProto.FLOAT)  # [N, K]
    weights = op("Transpose", op("Cast", node.input[1], to=TensorProto.FLOAT))  # [M, K]
    left = op("Reshape", codes, constant([0, 1, -1, 2]))  # [N, 1, K/2, 2]
    right = op("Reshape", weights, constant([0, -1, 2]))  # [M, K/2, 2]
    pairs = op("ReduceSum", op("Mul", left, right), constant([3]), keepdims=0)  # [N, M, K/2]
    limits = constant(-32768.0, np.float32), constant(32767.0, np.float32)
    total = op("ReduceSum", op("Clip", pairs, *limits), constant([2]), keepdims=0)  # [N, M]
    shift = op("ReduceSum", weights, constant([1]), keepdims=0)  # [M]
    product = op("Sub", total, op("Mul", shift, constant(_ZERO_POINT, np.float32)))
    yield from made
    yield helper.make_node("Mul", [product, node.input[3]], [prefix])

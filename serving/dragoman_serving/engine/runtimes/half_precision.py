"""Lowers a graph's precision: products and attention in fp16 or bf16, the rest in fp32.

The operations of tensor cores are lowered: MatMul and Attention, and with them the keys and values
in the cache. Long or sensitive sums, the residual stream and norms, stay in fp32. With bf16, so do
the scores, because its eight bits would make the two best scores equal too often. The graph casts
the stored weights, and a runtime folds these casts when it loads the graph. No other node changes,
so it is the same network, and one graph in a bundle is enough.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import onnx
from onnx import TensorProto, helper

HalfPrecision = Literal["fp16", "bf16"]
_TYPES = {"fp16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}

_LOWERED = {"MatMul": (0, 1), "Attention": (0, 1, 2), "TensorScatter": (0, 1)}
"""Operators that compute in half precision, with the indices of their numeric inputs."""
_INDIFFERENT = {"Reshape", "Transpose", "Split", "Squeeze", "Unsqueeze", "Gather", "Relu"}
"""Operators whose output has the precision of their first input."""


def lower_precision(
    model: onnx.ModelProto, precision: HalfPrecision, lowered_tensors: Collection[str]
) -> onnx.ModelProto:
    """Lower a graph's precision.

    Args:
        model: a graph in fp32; its weights may be in another file.
        precision: precision of products and attention.
        lowered_tensors: inputs and outputs that get this precision too, such as the cache; the
            others keep their types.

    Returns:
        A new model; `model` is not changed.
    """
    lowered = onnx.ModelProto()
    lowered.CopyFrom(model)
    graph = lowered.graph
    for value in (*graph.input, *graph.output):
        if value.name in lowered_tensors:
            value.type.tensor_type.elem_type = _TYPES[precision]
    inputs = {value.name for value in graph.input} & set(lowered_tensors)
    caster = _Caster(_TYPES[precision], inputs)
    kept = _scores(model.graph, set(lowered_tensors)) if precision == "bf16" else set[str]()
    for node in model.graph.node:
        caster.add(node, lower=not kept & set(node.output))
    for value in graph.output:
        if value.name not in lowered_tensors:
            caster.restore(value.name)
        elif value.name in caster.biased:
            caster.lower(value.name)
        elif value.name not in caster.half:
            raise ValueError(f"output {value.name} is not computed in {precision}")
    del graph.node[:]
    graph.node.extend(caster.nodes)
    return lowered


def _scores(graph: onnx.GraphProto, lowered_tensors: set[str]) -> set[str]:
    """Names of the fp32 outputs, and of the values that they equal up to renaming and a sum.

    So the candidates of recurrent states are kept, too.
    """
    names = {value.name for value in graph.output} - lowered_tensors
    for node in reversed(graph.node):
        if node.op_type in ("Identity", "Add") and node.output[0] in names:
            names.update(node.input)
    return names


class _Caster:
    """Adds a graph's nodes in order, and casts the inputs of each to the required type."""

    def __init__(self, half_type: int, half: set[str]) -> None:
        self._half_type = half_type
        self.half = half
        """Names of the values in half precision."""
        self.biased: set[str] = set()
        """Names of the values that would be in half precision without a bias."""
        self.nodes: list[onnx.NodeProto] = []
        self._casts: dict[tuple[str, int], str] = {}

    def add(self, original: onnx.NodeProto, lower: bool) -> None:
        node = onnx.NodeProto()
        node.CopyFrom(original)
        if lower and node.op_type in _LOWERED:
            for index in _LOWERED[node.op_type]:
                node.input[index] = self._cast(node.input[index], self._half_type)
            self.half.update(node.output)
        elif node.op_type in (*_INDIFFERENT, "Identity") and node.input[0] in self.half:
            self.half.update(node.output)
        else:
            adds_bias = node.op_type == "Add" and node.input[0] in self.half
            is_indifferent = node.op_type in (*_INDIFFERENT, "Identity")
            if adds_bias or (is_indifferent and node.input[0] in self.biased):
                self.biased.update(node.output)
            for index, name in enumerate(node.input):
                if name in self.half:
                    node.input[index] = self._cast(name, TensorProto.FLOAT)
        self.nodes.append(node)

    def restore(self, name: str) -> None:
        """Cast an output to fp32."""
        if name in self.half:
            self._cast_output(name, TensorProto.FLOAT)

    def lower(self, name: str) -> None:
        """Cast an output to half precision."""
        self._cast_output(name, self._half_type)

    def _cast_output(self, name: str, to: int) -> None:
        renamed = f"{name}:uncast"
        for node in self.nodes:
            node.input[:] = [renamed if read == name else read for read in node.input]
            node.output[:] = [renamed if made == name else made for made in node.output]
        self.nodes.append(helper.make_node("Cast", [renamed], [name], f"cast_{name}", to=to))

    def _cast(self, name: str, to: int) -> str:
        if (name in self.half) == (to == self._half_type):
            return name
        if (name, to) not in self._casts:
            made = f"{name}:as_{TensorProto.DataType.Name(to).lower()}"
            self.nodes.append(helper.make_node("Cast", [name], [made], f"cast_{made}", to=to))
            self._casts[name, to] = made
        return self._casts[name, to]

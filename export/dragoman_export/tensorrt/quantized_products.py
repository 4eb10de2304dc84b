"""Quantizes products in a graph to int8 or fp8 by QuantizeLinear and DequantizeLinear.

Weights become codes with one scale for each column; activations are rounded with one fixed scale
for each product, as tensor cores require. TensorRT fuses each pair of these nodes and the product
into one kernel.

NVIDIA's ModelOpt does the same. It is not used because it is incompatible with the ONNX and ONNX
Runtime versions that these graphs need, and casts the residual stream to fp16.

Source: https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/work-quantized-types.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
from dragoman_serving.engine.settings import QuantizedPrecision
from onnx import TensorProto, helper, numpy_helper

from dragoman_export.tensorrt.pruning import prune

Floats = npt.NDArray[np.float32]

_CODES = {"int8": (np.dtype(np.int8), 127.0), "fp8": (np.dtype(ml_dtypes.float8_e4m3fn), 448.0)}
"""Type of the codes, and the largest code."""
_FLOATS: dict[str, np.dtype[Any]] = {"fp32": np.dtype(np.float32), "fp16": np.dtype(np.float16)}
_CLIPS = np.linspace(0.2, 1.0, 33)
"""Fractions of the largest number at which int8 may clip."""


@dataclass(frozen=True)
class Product:
    """A product of activations and a weight.

    Attributes:
        weight: [K, M], as it is multiplied.
        rows: [N, K], a sample of the activations.
    """

    weight: Floats
    rows: Floats


Products = Mapping[str, Mapping[str, Product]]
"""By graph, and by the name of the product's result."""


def quantize_products(
    model: onnx.ModelProto,
    products: Mapping[str, Product],
    precision: QuantizedPrecision,
    precision_before: Literal["fp32", "fp16"] = "fp16",
) -> onnx.ModelProto:
    """Quantize products to 8 bits.

    Args:
        model: a graph; its products may already be in fp16.
        products: their factors, by the name of the result.
        precision: of the quantized numbers.
        precision_before: of the products in `model`, and of their results.

    Returns:
        Another model; `model` is not changed. Its outputs keep their types.
    """
    quantized = onnx.ModelProto()
    quantized.CopyFrom(model)
    graph = quantized.graph
    writer = _Writer(precision, _FLOATS[precision_before])
    lowered = {node.output[0]: node.input[0] for node in graph.node if _lowers(node)}
    for node in model.graph.node:
        copied = onnx.NodeProto()
        copied.CopyFrom(node)
        product = products.get(node.output[0]) if node.op_type == "MatMul" else None
        if product is not None:
            name, floats = node.input[0], _FLOATS[precision_before]
            if name in lowered:  # a tensor rounded to 8 bits need not be rounded to 16 first
                name, floats = lowered[name], _FLOATS["fp32"]
            copied.input[0] = writer.activations(name, floats, product.rows)
            copied.input[1] = writer.weight(node.output[0], product.weight)
        writer.nodes.append(copied)
    del graph.node[:]
    graph.node.extend(writer.nodes)
    graph.initializer.extend(writer.weights)
    prune(graph)
    return quantized


def _lowers(node: onnx.NodeProto) -> bool:
    """Whether a node is a cast to fp16; all of these are from fp32."""
    return node.op_type == "Cast" and node.attribute[0].i == TensorProto.FLOAT16


class _Writer:
    """Rewrites a graph's nodes."""

    def __init__(self, precision: QuantizedPrecision, floats: np.dtype[Any]) -> None:
        self._codes, self._largest = _CODES[precision]
        self._precision = precision
        self._floats = floats
        self._smallest_scale = float(np.finfo(floats).smallest_normal)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._rounded: dict[str, str] = {}

    def activations(self, name: str, floats: np.dtype[Any], rows: Floats) -> str:
        """The quantized replacement of a tensor of this type."""
        if name not in self._rounded:
            scale = self._scale(np.array(self._clip(rows), np.float32))
            codes, rounded = f"{name}:codes", f"{name}:rounded"
            zero = self._constant(f"{name}:zero", np.zeros((), self._codes))
            before = self._constant(f"{name}:scale", scale.astype(floats))
            after = self._constant(f"{name}:scale_back", scale)
            self.nodes += [
                helper.make_node("QuantizeLinear", [name, before, zero], [codes], codes),
                helper.make_node("DequantizeLinear", [codes, after, zero], [rounded], rounded),
            ]
            self._rounded[name] = rounded
        return self._rounded[name]

    def weight(self, product: str, weight: Floats) -> str:
        """Codes of a weight [K, M], dequantized."""
        scales = self._scale(np.abs(weight).max(0))
        values = weight / scales.astype(np.float32)
        if self._precision == "int8":
            values = np.clip(np.rint(values), -self._largest, self._largest)
        # Clip to the largest code: a rounded scale could exceed it, where fp8 has NaN.
        codes = np.clip(values, -self._largest, self._largest).astype(self._codes)
        dequantized = f"{product}:weight"
        inputs = [
            self._constant(f"{product}:weight_codes", codes),
            self._constant(f"{product}:weight_scales", scales),
        ]
        self.nodes.append(
            helper.make_node("DequantizeLinear", inputs, [dequantized], dequantized, axis=1)
        )
        return dequantized

    def _scale(self, largest: Floats) -> npt.NDArray[Any]:
        scale: npt.NDArray[Any] = np.maximum(largest / self._largest, self._smallest_scale)
        return scale.astype(self._floats)

    def _clip(self, rows: Floats) -> float:
        """The clipping threshold: the largest number that is represented."""
        largest = float(np.abs(rows).max())
        if self._precision == "fp8":  # its small numbers are as precise as its large ones
            return largest
        errors = []
        for part in _CLIPS:
            scale = max(largest * part / self._largest, 1e-30)
            rounded = np.clip(np.rint(rows / scale), -self._largest, self._largest) * scale
            errors.append(float(np.square(rows - rounded).mean()))
        return float(largest * _CLIPS[int(np.argmin(errors))])

    def _constant(self, name: str, value: npt.NDArray[np.generic]) -> str:
        self.weights.append(numpy_helper.from_array(value, name))
        return name

"""The building blocks in int8, for ONNX Runtime on CPUs.

Products use 8-bit codes, with one scale for each column of the weight and one for each row of the
activations, so that a row's result does not depend on its neighbours in a batch. The codes are
computed from the same stored weights when a runtime loads the graph and folds its constants, so
int8 needs no second copy in a bundle.

Layer normalization is written as root-mean-square normalization of centred values, for which ONNX
Runtime has a vectorized kernel; its LayerNormalization takes eight times as long. In a pre-norm
model, the residual stream is centred once, at the embedding, and everything added to it comes from
centred weights; the output of an SSRU is centred itself.

Source: https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html
"""

from __future__ import annotations

import numpy as np
from dragoman_training.network.architecture import ModelConfig
from onnx import TensorProto

from dragoman.kernel.manifest import Limits
from dragoman_export.graphs.blocks import Blocks
from dragoman_export.graphs.graph_builder import GraphBuilder

CONTRIB = "com.microsoft"
_LARGEST_CODE = 127.0
_ZERO_POINT = 128
"""Zero point of unsigned activations: ONNX Runtime has no fast product of signed ones on x86."""
_SMALLEST_SCALE = 1e-30
"""Prevents a division by zero for a column of zeros."""


class Int8Blocks(Blocks):
    """`Blocks` with 8-bit products."""

    def __init__(self, graph: GraphBuilder, config: ModelConfig, limits: Limits) -> None:
        """Start with an empty graph."""
        super().__init__(graph, config, limits)
        self._quantized: dict[str, tuple[str, str]] = {}
        self._zero_points: str | None = None
        self._inner: set[str] = set()
        """Values inside a feed-forward layer."""

    def linear(self, x: str, weight: str, bias: str | None = None) -> str:
        """See `Blocks.linear`."""
        graph = self.graph
        codes, scales = self._quantize_rows(x)
        weight_codes, weight_scales, weight_zeros = self._quantize_columns(weight)
        product = graph.op(
            "MatMulIntegerToFloat",
            codes,
            weight_codes,
            graph.constant(1.0, np.float32),
            weight_scales,
            graph.constant(_ZERO_POINT, np.uint8),
            weight_zeros,
            domain=CONTRIB,
        )
        product = graph.op("Mul", product, scales)
        return product if bias is None else graph.op("Add", product, bias)

    def linear_back(self, x: str, weight: str, bias: str | None = None) -> str:
        """See `Blocks.linear_back`."""
        if self.config.norm == "post":
            return self.linear(x, weight, bias)
        bias = bias and self._centre(bias)
        return self.linear(x, self._centre(weight, axis=0), bias)

    def activate(self, x: str) -> str:
        """See `Blocks.activate`."""
        activated = super().activate(x)
        self._inner.add(activated)
        return activated

    def cell_output(self, cell: str) -> str:
        """See `Blocks.cell_output`."""
        output = super().cell_output(cell)
        return self._centre(output) if self.config.norm == "pre" else output

    def norm(self, x: str, name: str) -> str:
        """See `Blocks.norm`."""
        scale, bias = self.graph.weight(f"{name}.weight"), self.graph.weight(f"{name}.bias")
        if self.config.norm == "post":
            x = self._centre(x)
        normed = self.graph.op("RMSNormalization", x, scale, epsilon=self.config.norm_epsilon)
        return self.graph.op("Add", normed, bias)

    def embed(self, ids: str, positions: str, table: str = "embedding") -> str:
        """See `Blocks.embed`."""
        x = super().embed(ids, positions, table)
        return self._centre(x) if self.config.norm == "pre" else x

    def _centre(self, x: str, axis: int = -1) -> str:
        mean = self.graph.op("ReduceMean", x, self.graph.constant([axis]), keepdims=1)
        return self.graph.op("Sub", x, mean)

    def _quantize_rows(self, x: str) -> tuple[str, str]:
        """Codes [N, K] of `x` and a scale [N, 1] for each row; computed once for each value."""
        if x not in self._quantized:
            graph = self.graph
            is_inner = x in self._inner
            rectified = is_inner and self.config.activation == "relu"
            sizes = x if rectified else graph.op("Abs", x)
            largest = graph.op("ReduceMax", sizes, graph.constant([-1]), keepdims=1)
            scales = graph.op("Mul", largest, graph.constant(1 / _LARGEST_CODE, np.float32))
            if self._zero_points is None:  # all of a graph's products have the same rows
                zero_point = graph.constant([[_ZERO_POINT]], np.uint8)
                self._zero_points = graph.op("Expand", zero_point, graph.op("Shape", scales))
            # One block as long as the row, so that the scales have the shape that the product
            # needs.
            width = self.config.feed_forward_size if is_inner else self.config.model_size
            codes = graph.op(
                "QuantizeLinear", x, scales, self._zero_points, axis=1, block_size=width
            )
            self._quantized[x] = codes, scales
        return self._quantized[x]

    def _quantize_columns(self, weight: str) -> tuple[str, str, str]:
        """Codes [K, M] of a weight [M, K], and scales and zero points [M]; folded at load time."""
        graph = self.graph
        largest = graph.op("ReduceMax", graph.op("Abs", weight), graph.constant([1]), keepdims=0)
        scales = graph.op("Mul", largest, graph.constant(1 / _LARGEST_CODE, np.float32))
        scales = graph.op("Max", scales, graph.constant(_SMALLEST_SCALE, np.float32))
        zeros = graph.op("Cast", graph.op("Sub", scales, scales), to=TensorProto.INT8)
        transposed = graph.op("Transpose", weight, perm=[1, 0])
        return graph.op("QuantizeLinear", transposed, scales, zeros, axis=1), scales, zeros

"""The Transformer's building blocks as fp32 ONNX nodes that every runtime accepts.

The Transformer is that of `dragoman_training.network.transformer`, tensor by tensor; the shape
letters are explained there. Activations are flat: N rows of E, whatever the rows are (B x S source
tokens, or R hypotheses).

Source: https://onnx.ai/onnx/operators/onnx__TensorScatter.html and onnx__Attention.html
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx
from dragoman_training.network.architecture import ModelConfig
from onnx import TensorProto, helper

from dragoman.kernel.manifest import Limits, TensorEntry
from dragoman.kernel.positions import sinusoidal_positions
from dragoman_export.graphs.graph_builder import GraphBuilder

Sublayer = Callable[[str, str], str]
"""Maps a value and the name of a sub-layer's weights to a value."""


class Blocks:
    """Adds the parts of a Transformer to a graph; values and weights are referred to by name."""

    def __init__(self, graph: GraphBuilder, config: ModelConfig, limits: Limits) -> None:
        """Start with an empty graph."""
        self.graph = graph
        self.config = config
        self.limits = limits

    # Arithmetic; subclasses may use another precision.

    def linear(self, x: str, weight: str, bias: str | None = None) -> str:
        """`x` [N, K] times a weight [M, K], plus a bias [M]: [N, M]."""
        transposed = self.graph.op("Transpose", weight, perm=[1, 0])
        product = self.graph.op("MatMul", x, transposed)
        return product if bias is None else self.graph.op("Add", product, bias)

    def linear_back(self, x: str, weight: str, bias: str | None = None) -> str:
        """A product whose result is added to the residual stream."""
        return self.linear(x, weight, bias)

    def activate(self, x: str) -> str:
        """The activation inside the feed-forward layer."""
        if self.config.activation == "relu":
            return self.graph.op("Relu", x)
        if self.config.activation == "silu":
            return self.graph.op("Mul", x, self.graph.op("Sigmoid", x))
        # Written out, since more runtimes support Erf than Gelu.
        half, one = (self.graph.constant(value, np.float32) for value in (0.5, 1.0))
        scaled = self.graph.op("Mul", x, self.graph.constant(math.sqrt(0.5), np.float32))
        share = self.graph.op("Add", self.graph.op("Erf", scaled), one)
        return self.graph.op("Mul", self.graph.op("Mul", x, half), share)

    def norm(self, x: str, name: str) -> str:
        """Layer normalisation."""
        scale, bias = self.graph.weight(f"{name}.weight"), self.graph.weight(f"{name}.bias")
        return self.graph.op("LayerNormalization", x, scale, bias, epsilon=self.config.norm_epsilon)

    def embed(self, ids: str, positions: str, table: str = "embedding") -> str:
        """Embeddings of `ids`, scaled, plus position encodings that broadcast to them."""
        rows = self.graph.rows(f"{table}.weight", ids)
        scale = self.graph.constant(math.sqrt(self.config.model_size), np.float32)
        return self.graph.op("Add", self.graph.op("Mul", rows, scale), positions)

    # Layers.

    def residual(self, x: str, name: str, sublayer: Sublayer) -> str:
        """Add a sub-layer to x, with the norm before it or after the sum."""
        if self.config.norm == "pre":
            return self.graph.op("Add", x, sublayer(self.norm(x, f"{name}_norm"), name))
        return self.norm(self.graph.op("Add", x, sublayer(x, name)), f"{name}_norm")

    def final_norm(self, x: str, name: str) -> str:
        """The norm after the last layer, if there is one."""
        return self.norm(x, name) if self.config.norm == "pre" else x

    def feed_forward(self, x: str, name: str) -> str:
        """Two products with an activation between them."""
        weight = self.graph.weight
        inner = self.linear(x, weight(f"{name}.inner.weight"), weight(f"{name}.inner.bias"))
        inner = self.activate(inner)
        return self.linear_back(inner, weight(f"{name}.outer.weight"), weight(f"{name}.outer.bias"))

    def logits(self, x: str) -> str:
        """Logits [N, V] of the vocabulary."""
        matrix = "own_output" if self.config.own_output else "embedding"
        bias = self.graph.weight("output_bias") if self.config.output_bias else None
        return self.linear(x, self.graph.weight(f"{matrix}.weight"), bias)

    # Attention. The queries' scale is folded into their weights, so that no step applies it; and
    # with a scale of one, Attention takes ONNX Runtime's fast path for single rows.

    def query_weight(self, name: str) -> str:
        """Weight [E, E] of the queries, scaled for attention."""
        return self._scaled(self.graph.weight(f"{name}.query.weight"))

    def query_bias(self, name: str) -> str | None:
        """Bias [E] of the queries, scaled for attention."""
        bias = self._attention_bias(f"{name}.query")
        return bias and self._scaled(bias)

    def _scaled(self, weight: str) -> str:
        scale = self.graph.constant(1 / math.sqrt(self.config.head_size), np.float32)
        return self.graph.op("Mul", weight, scale)

    def _attention_bias(self, name: str) -> str | None:
        return self.graph.weight(f"{name}.bias") if self.config.attention_bias else None

    def query(self, x: str, name: str) -> str:
        """Scaled queries [N, E]."""
        return self.linear(x, self.query_weight(name), self.query_bias(name))

    def query_key_value(self, x: str, name: str) -> str:
        """Scaled queries, keys and values in one product: [N, 3E]."""
        key_value = self.graph.weight(f"{name}.key_value.weight")
        joined = self.graph.op("Concat", self.query_weight(name), key_value, axis=0)
        query_bias, bias = self.query_bias(name), self._attention_bias(f"{name}.key_value")
        if query_bias and bias:
            bias = self.graph.op("Concat", query_bias, bias, axis=0)
        return self.linear(x, joined, bias)

    def key_value(self, memory: str, name: str) -> list[str]:
        """Keys and values, [N, E] each."""
        weight = self.graph.weight(f"{name}.key_value.weight")
        joined = self.linear(memory, weight, self._attention_bias(f"{name}.key_value"))
        return self.graph.split_op("Split", joined, outputs=2, axis=-1, num_outputs=2)

    def attend(self, query: str, key: str, value: str, keep_mask: str) -> str:
        """Attention of scaled queries [B, H, T, D] over [B, H, S, D] where the mask is true."""
        return self.graph.op("Attention", query, key, value, keep_mask, is_causal=0, scale=1.0)

    def attend_in_the_open(self, query: str, key: str, value: str, keep_mask: str) -> list[str]:
        """Attention as separate nodes; also returns the weights [B, H, T, S]."""
        graph = self.graph
        scores = graph.op("MatMul", query, graph.op("Transpose", key, perm=[0, 1, 3, 2]))
        # The most negative finite number: with minus infinity, a fully masked row would give NaN.
        masked = graph.constant(np.finfo(np.float32).min, np.float32)
        weights = graph.op("Softmax", graph.op("Where", keep_mask, scores, masked), axis=-1)
        return [graph.op("MatMul", weights, value), weights]

    def output(self, attended: str, name: str) -> str:
        """The product after attention."""
        weight = self.graph.weight(f"{name}.output.weight")
        return self.linear_back(attended, weight, self._attention_bias(f"{name}.output"))

    def split_heads(self, x: str, batch: str) -> str:
        """[N, E] to [B, T, H, D] to [B, H, T, D]; `batch` is [B] as a vector of one element."""
        sizes = self.graph.constant([-1, self.config.heads, self.config.head_size])
        shape = self.graph.op("Concat", batch, sizes, axis=0)
        return self.graph.op("Transpose", self.graph.op("Reshape", x, shape), perm=[0, 2, 1, 3])

    def merge_heads(self, x: str) -> str:
        """[B, H, T, D] to [B, T, H, D] to [N, E]."""
        shape = self.graph.constant([-1, self.config.model_size])
        return self.graph.op("Reshape", self.graph.op("Transpose", x, perm=[0, 2, 1, 3]), shape)

    def self_attention(self, x: str, name: str, batch: str, keep_mask: str) -> str:
        """Self-attention within whole sequences, [N, E] with N = B x T."""
        graph, heads = self.graph, self.config.heads
        parts = graph.split_op(
            "Split", self.query_key_value(x, name), outputs=3, axis=-1, num_outputs=3
        )
        size = graph.constant([self.config.model_size])
        shape = graph.op("Concat", batch, graph.constant([-1]), size, axis=0)
        query, key, value = (graph.op("Reshape", part, shape) for part in parts)  # [B, T, E]
        attended = graph.op(
            "Attention",
            query,
            key,
            value,
            keep_mask,
            is_causal=0,
            scale=1.0,
            q_num_heads=heads,
            kv_num_heads=heads,
        )
        flat = graph.op("Reshape", attended, graph.constant([-1, self.config.model_size]))
        return self.output(flat, name)

    # The SSRU, a recurrence in place of the decoder's self-attention.

    def gate_and_candidate(self, x: str, name: str) -> tuple[str, str]:
        """What an SSRU computes of each input on its own: forget gate and candidate, [N, E]."""
        weight = self.graph.weight
        gate = self.linear(x, weight(f"{name}.forget.weight"), weight(f"{name}.forget.bias"))
        candidate = self.linear(x, weight(f"{name}.candidate.weight"))
        return self.graph.op("Sigmoid", gate), candidate

    def next_cell(self, cell: str, gate: str, candidate: str, output: TensorEntry) -> str:
        """The cell [N, E] of an SSRU after one more input, which is an output of the graph."""
        change = self.graph.op("Mul", gate, self.graph.op("Sub", cell, candidate))
        return self.graph.inplace_op("Add", candidate, change, output=output)

    def all_cells(self, x: str, name: str, batch: str) -> str:
        """The cells of an SSRU over whole sequences, [N, E] with N = B x T."""
        graph, size = self.graph, self.config.model_size
        shape = graph.op("Concat", batch, graph.constant([-1, size]), axis=0)
        both = (graph.op("Reshape", part, shape) for part in self.gate_and_candidate(x, name))
        first_shape = graph.op("Concat", batch, graph.constant([size]), axis=0)
        first = graph.op("Expand", graph.constant(0.0, np.float32), first_shape)
        _, cells = graph.split_op(
            "Scan",
            first,
            *both,
            outputs=2,
            body=_recurrence(size),
            num_scan_inputs=2,
            scan_input_axes=[1, 1],
            scan_output_axes=[1],
        )
        return graph.op("Reshape", cells, graph.constant([-1, size]))

    def cell_output(self, cell: str) -> str:
        """What an SSRU adds to the residual stream."""
        return self.graph.op("Relu", cell)

    # Positions, masks and sizes.

    def positions(self) -> str:
        """The position table [P, E]; its length is that of the longest request."""
        length = max(self.limits.max_source_tokens, self.limits.max_target_tokens)
        table = sinusoidal_positions(length, self.config.model_size, self.config.position_rates)
        return self.graph.constant(table, np.float32)

    def first_positions(self, ids: str) -> str:
        """Position encodings [S, E] for whole sequences `ids` [B, S]."""
        zero = self.graph.constant([0])
        return self.graph.op("Slice", self.positions(), zero, self.size(ids, 1), zero)

    def length_mask(self, lengths: str, like: str, axis: int) -> str:
        """True at the first `lengths` [B] positions of an axis of `like`: bool [B, 1, 1, S]."""
        zero, one = self.graph.constant(0), self.graph.constant(1)
        length = self.graph.op("Squeeze", self.size(like, axis))
        places = self.graph.op("Range", zero, length, one)
        axes = self.graph.constant([1, 2, 3])
        return self.graph.op("Less", places, self.graph.op("Unsqueeze", lengths, axes))

    def repeat_for_queries(self, keep_mask: str, queries: str) -> str:
        """Repeat a mask [B, 1, 1, S] for T queries, a vector of one element: [B, 1, T, S].

        ONNX Runtime's Attention broadcasts a mask over heads, but not over queries.
        """
        one = self.graph.constant([1])
        shape = self.graph.op("Concat", one, one, queries, one, axis=0)
        return self.graph.op("Expand", keep_mask, shape)

    def size(self, x: str, axis: int) -> str:
        """One dimension of a value, as a vector of one element."""
        return self.graph.op("Shape", x, start=axis, end=axis + 1)

    # The encoder stack, used by two graphs.

    def encode(self, input_ids: str, src_lengths: str) -> tuple[str, str]:
        """Encode `input_ids` [B, S]: the output [B x S, E] and the source's mask [B, 1, 1, S]."""
        batch, length = self.size(input_ids, 0), self.size(input_ids, 1)
        keep_mask = self.length_mask(src_lengths, input_ids, 1)
        square_mask = self.repeat_for_queries(keep_mask, length)
        table = "embedding" if self.config.src_vocab_size is None else "src_embedding"
        x = self.embed(input_ids, self.first_positions(input_ids), table)
        x = self.graph.op("Reshape", x, self.graph.constant([-1, self.config.model_size]))

        def self_attention(y: str, part: str) -> str:
            return self.self_attention(y, part, batch, square_mask)

        for layer in range(self.config.encoder_layers):
            name = f"encoder_layers.{layer}"
            x = self.residual(x, f"{name}.self_attention", self_attention)
            x = self.residual(x, f"{name}.feed_forward", self.feed_forward)
        return self.final_norm(x, "encoder_norm"), keep_mask


def _recurrence(size: int) -> onnx.GraphProto:
    """One step of `all_cells`: a cell [B, E], a gate and a candidate to the next cell, twice."""

    def entry(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", size])

    nodes = [
        helper.make_node("Sub", ["cell", "candidate"], ["difference"]),
        helper.make_node("Mul", ["gate", "difference"], ["change"]),
        helper.make_node("Add", ["candidate", "change"], ["next_cell"]),
        helper.make_node("Identity", ["next_cell"], ["read_cell"]),
    ]
    inputs, outputs = ("cell", "gate", "candidate"), ("next_cell", "read_cell")
    return helper.make_graph(nodes, "recurrence", [*map(entry, inputs)], [*map(entry, outputs)])


class OpenBlocks(Blocks):
    """Blocks whose attention consists of separate nodes, so that its weights can be output."""

    def __init__(self, graph: GraphBuilder, config: ModelConfig, limits: Limits) -> None:
        """Start with an empty graph."""
        super().__init__(graph, config, limits)
        self.weights: list[str] = []
        """Weights of each attention [B, H, T, S], in the order in which they were added."""

    def attend_in_the_open(self, query: str, key: str, value: str, keep_mask: str) -> list[str]:
        """See `Blocks`; records the weights."""
        attended, weights = super().attend_in_the_open(query, key, value, keep_mask)
        self.weights.append(weights)
        return [attended, weights]

    def self_attention(self, x: str, name: str, batch: str, keep_mask: str) -> str:
        """See `Blocks`."""
        query, key, value = (
            self.split_heads(part, batch)
            for part in (self.query(x, name), *self.key_value(x, name))
        )
        attended, _ = self.attend_in_the_open(query, key, value, keep_mask)
        return self.output(self.merge_heads(attended), name)

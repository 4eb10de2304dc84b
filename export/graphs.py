"""The project's graphs: encoder, decoder step with two heads, reorder, score.

Knows the Transformer as `training.model` defines it, tensor by tensor; the shape letters are
explained there. The form is the one that ONNX Runtime and TensorRT both take: TensorScatter writes
each row's key and value at that row's own position into a cache that is a graph input, and
Attention reads the cache under an explicit mask.

Source: https://onnx.ai/onnx/operators/onnx__TensorScatter.html and onnx__Attention.html
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx

from dragoman.manifest import GraphEntry, Limits, TensorEntry
from dragoman.tensors import cross_names, past_names, present_names
from export.graph_builder import GraphBuilder, WeightsFile
from training.model import ModelConfig, sinusoidal_positions

_NORM_EPSILON = 1e-5

_Sublayer = Callable[[str, str], str]
"""From a value and the name of its weights to a value."""


@dataclass(frozen=True)
class Graph:
    """A finished graph with the manifest's entry for it."""

    model: onnx.ModelProto
    entry: GraphEntry


class _Writer:
    """The Transformer's building blocks, as nodes in one graph."""

    def __init__(
        self, name: str, config: ModelConfig, limits: Limits, weights: WeightsFile
    ) -> None:
        self.graph = GraphBuilder(name, weights)
        self.config = config
        self._limits = limits
        self._name = name

    def finish(self) -> Graph:
        entry = GraphEntry(
            f"{self._name}.onnx", tuple(self.graph.inputs), tuple(self.graph.outputs)
        )
        return Graph(self.graph.build(), entry)

    def positions(self) -> str:
        """The position table [P, E], as long as the longest request."""
        length = max(self._limits.max_source_tokens, self._limits.max_target_tokens)
        table = sinusoidal_positions(length, self.config.model_size).numpy()
        return self.graph.constant(table, np.float32)

    def first_positions(self, ids: str) -> str:
        """Position encodings [S, E] for whole sequences `ids` [B, S]."""
        length = self.graph.op("Shape", ids, start=1, end=2)
        return self.graph.op(
            "Slice", self.positions(), self.graph.constant([0]), length, self.graph.constant([0])
        )

    def embed(self, ids: str, positions: str) -> str:
        """Embeddings of [B, T] ids, scaled, plus position encodings that broadcast to [B, T, E]."""
        rows = self.graph.op("Gather", self.graph.weight("embedding.weight"), ids)
        scale = self.graph.constant(math.sqrt(self.config.model_size), np.float32)
        return self.graph.op("Add", self.graph.op("Mul", rows, scale), positions)

    def linear(self, x: str, name: str, bias: bool = False) -> str:
        transposed = self.graph.op("Transpose", self.graph.weight(f"{name}.weight"), perm=[1, 0])
        product = self.graph.op("MatMul", x, transposed)
        return self.graph.op("Add", product, self.graph.weight(f"{name}.bias")) if bias else product

    def norm(self, x: str, name: str) -> str:
        scale, bias = self.graph.weight(f"{name}.weight"), self.graph.weight(f"{name}.bias")
        return self.graph.op("LayerNormalization", x, scale, bias, epsilon=_NORM_EPSILON)

    def final_norm(self, x: str, name: str) -> str:
        return self.norm(x, name) if self.config.norm == "pre" else x

    def split_heads(self, x: str) -> str:
        """[B, T, E] to [B, T, H, D] to [B, H, T, D]."""
        shape = self.graph.constant([0, 0, self.config.heads, self.config.head_size])
        return self.graph.op("Transpose", self.graph.op("Reshape", x, shape), perm=[0, 2, 1, 3])

    def merge_heads(self, x: str) -> str:
        """[B, H, T, D] to [B, T, H, D] to [B, T, E]."""
        shape = self.graph.constant([0, 0, self.config.model_size])
        return self.graph.op("Reshape", self.graph.op("Transpose", x, perm=[0, 2, 1, 3]), shape)

    def key_value(self, memory: str, name: str) -> list[str]:
        """Keys and values [B, H, S, D] of memory [B, S, E]."""
        joined = self.linear(memory, f"{name}.key_value")
        halves = self.graph.split_op("Split", joined, outputs=2, axis=-1, num_outputs=2)
        return [self.split_heads(half) for half in halves]

    def attend(self, query: str, key: str, value: str, keep_mask: str) -> str:
        return self.graph.op("Attention", query, key, value, keep_mask, is_causal=0)

    def attend_in_the_open(self, query: str, key: str, value: str, keep_mask: str) -> list[str]:
        """Attention as separate nodes, where the weights [B, H, T, S] are an output too."""
        graph = self.graph
        scale = graph.constant(1 / math.sqrt(self.config.head_size), np.float32)
        transposed = graph.op("Transpose", key, perm=[0, 1, 3, 2])
        scores = graph.op("MatMul", graph.op("Mul", query, scale), transposed)
        # The most negative finite number: minus infinity would give NaN in a fully masked row.
        masked = graph.constant(np.finfo(np.float32).min, np.float32)
        weights = graph.op("Softmax", graph.op("Where", keep_mask, scores, masked), axis=-1)
        return [graph.op("MatMul", weights, value), weights]

    def self_attention(self, x: str, name: str, keep_mask: str) -> str:
        """Self-attention over whole sequences [B, T, E]."""
        query = self.split_heads(self.linear(x, f"{name}.query"))
        key, value = self.key_value(x, name)
        attended = self.attend(query, key, value, keep_mask)
        return self.linear(self.merge_heads(attended), f"{name}.output")

    def feed_forward(self, x: str, name: str) -> str:
        inner = self.graph.op("Relu", self.linear(x, f"{name}.inner", bias=True))
        return self.linear(inner, f"{name}.outer", bias=True)

    def logits(self, x: str) -> str:
        return self.linear(x, "embedding")

    def best(self, logits: str) -> tuple[str, str]:
        """Log-probabilities [R, K] of the best K tokens, and their ids [R, K].

        The log-softmax of those few alone: their logits, less the logarithm of the sum over all,
        which is taken relative to the best one, so that nothing overflows or vanishes.
        """
        graph = self.graph
        top_k = graph.constant([self._limits.top_k])
        top, top_ids = graph.split_op("TopK", logits, top_k, outputs=2, axis=-1)
        ends = (graph.constant([0]), graph.constant([1]), graph.constant([1]))
        best = graph.op("Slice", top, *ends)  # [R, 1]
        likely = graph.op("Exp", graph.op("Sub", logits, best))
        total = graph.op("ReduceSum", likely, graph.constant([1]), keepdims=1)
        return graph.op("Sub", graph.op("Sub", top, best), graph.op("Log", total)), top_ids

    def length_mask(self, lengths: str, length: str) -> str:
        """True at the first `lengths` [B] of `length` [] places: bool [B, 1, 1, S]."""
        zero, one = self.graph.constant(0), self.graph.constant(1)
        places = self.graph.op("Range", zero, length, one)
        axes = self.graph.constant([1, 2, 3])
        return self.graph.op("Less", places, self.graph.op("Unsqueeze", lengths, axes))

    def square(self, keep_mask: str, ids: str) -> str:
        """Repeat a mask [B, 1, 1, S] for every query of `ids` [B, S]: [B, 1, S, S].

        ONNX Runtime's Attention broadcasts a mask over heads, but not over queries.
        """
        one, length = self.graph.constant([1]), self.graph.op("Shape", ids, start=1, end=2)
        shape = self.graph.op("Concat", one, one, length, one, axis=0)
        return self.graph.op("Expand", keep_mask, shape)

    def size(self, x: str, axis: int) -> str:
        """One dimension of a value, as a scalar."""
        return self.graph.op("Squeeze", self.graph.op("Shape", x, start=axis, end=axis + 1))

    def encode(self, input_ids: str, src_lengths: str) -> tuple[str, str]:
        """The encoder stack: its output [B, S, E] and the source's mask [B, 1, 1, S]."""
        keep_mask = self.length_mask(src_lengths, self.size(input_ids, 1))
        square_mask = self.square(keep_mask, input_ids)
        x = self.embed(input_ids, self.first_positions(input_ids))
        for layer in range(self.config.encoder_layers):
            name = f"encoder_layers.{layer}"
            x = self.residual(
                x,
                f"{name}.self_attention",
                lambda y, part: self.self_attention(y, part, square_mask),
            )
            x = self.residual(x, f"{name}.feed_forward", self.feed_forward)
        return self.final_norm(x, "encoder_norm"), keep_mask

    def residual(self, x: str, name: str, sublayer: _Sublayer) -> str:
        """X plus a sub-layer, normed before it or after the sum."""
        if self.config.norm == "pre":
            return self.graph.op("Add", x, sublayer(self.norm(x, f"{name}_norm"), name))
        return self.norm(self.graph.op("Add", x, sublayer(x, name)), f"{name}_norm")


def encoder(config: ModelConfig, limits: Limits, weights: WeightsFile) -> Graph:
    """`input_ids` [B, S], `src_lengths` [B] to every layer's cross keys and values [B, H, S, D]."""
    writer = _Writer("encoder", config, limits, weights)
    graph = writer.graph
    input_ids = graph.input("input_ids", "int64", "B", "S")
    src_lengths = graph.input("src_lengths", "int64", "B")
    memory, _ = writer.encode(input_ids, src_lengths)
    projected = [
        value
        for layer in range(config.decoder_layers)
        for value in writer.key_value(memory, f"decoder_layers.{layer}.cross_attention")
    ]
    for value, name in zip(projected, cross_names(config.decoder_layers), strict=True):
        graph.output(value, name, "float32", "B", config.heads, "S", config.head_size)
    return writer.finish()


def decoder(
    config: ModelConfig, limits: Limits, weights: WeightsFile, head: Literal["logits", "topk"]
) -> Graph:
    """One step of R rows, each at its own position.

    Inputs are `input_ids` [R, 1], `positions` [R], `src_lengths` [R], the cross keys and values
    [R, H, S, D] and the self-attention cache [R, H, C, D] of every layer. Outputs are the cache
    with this step's keys and values in it, and `logits` [R, V], or `top_scores` (log-probabilities)
    and `top_ids` [R, K].
    """
    writer = _Writer(f"decoder_{head}", config, limits, weights)
    graph = writer.graph
    input_ids = graph.input("input_ids", "int64", "R", 1)
    positions = graph.input("positions", "int64", "R")
    src_lengths = graph.input("src_lengths", "int64", "R")
    layers, shape = config.decoder_layers, (config.heads, "S", config.head_size)
    cross = [graph.input(name, "float32", "R", *shape) for name in cross_names(layers)]
    cache_shape = ("R", str(config.heads), "C", str(config.head_size))
    past = [graph.input(name, "float32", *cache_shape) for name in past_names(layers)]
    present = [TensorEntry(name, "float32", cache_shape) for name in present_names(layers)]

    src_keep_mask = writer.length_mask(src_lengths, writer.size(cross[0], 2))
    written = graph.op("Add", positions, graph.constant([1]))
    cache_keep_mask = writer.length_mask(written, writer.size(past[0], 2))
    encoding = graph.op("Gather", writer.positions(), positions)  # [R, E]
    x = writer.embed(input_ids, graph.op("Unsqueeze", encoding, graph.constant([1])))

    def cached_self_attention(x: str, name: str) -> str:
        query = writer.split_heads(writer.linear(x, f"{name}.query"))
        cached = [
            graph.inplace_op(
                *("TensorScatter", past.pop(0), new, positions),
                output=present.pop(0),
                axis=-2,
                mode="linear",
            )
            for new in writer.key_value(x, name)
        ]
        attended = writer.attend(query, cached[0], cached[1], cache_keep_mask)
        return writer.linear(writer.merge_heads(attended), f"{name}.output")

    def cross_attention(x: str, name: str) -> str:
        query = writer.split_heads(writer.linear(x, f"{name}.query"))
        attended = writer.attend(query, cross.pop(0), cross.pop(0), src_keep_mask)
        return writer.linear(writer.merge_heads(attended), f"{name}.output")

    for layer in range(layers):
        name = f"decoder_layers.{layer}"
        x = writer.residual(x, f"{name}.self_attention", cached_self_attention)
        x = writer.residual(x, f"{name}.cross_attention", cross_attention)
        x = writer.residual(x, f"{name}.feed_forward", writer.feed_forward)
    x = writer.final_norm(x, "decoder_norm")
    logits = graph.op("Squeeze", writer.logits(x), graph.constant([1]))  # [R, V]
    if head == "logits":
        graph.output(logits, "logits", "float32", "R", config.vocab_size)
        return writer.finish()
    scores, top_ids = writer.best(logits)
    graph.output(scores, "top_scores", "float32", "R", limits.top_k)
    graph.output(top_ids, "top_ids", "int64", "R", limits.top_k)
    return writer.finish()


def reorder(config: ModelConfig, limits: Limits, weights: WeightsFile) -> Graph:
    """`rows` [N] and the cache [R, H, C, D] to the cache of those rows, in that order."""
    writer = _Writer("reorder", config, limits, weights)
    graph = writer.graph
    layers = config.decoder_layers
    rows = graph.input("rows", "int64", "N")
    shape = (config.heads, "C", config.head_size)
    for past, present in zip(past_names(layers), present_names(layers), strict=True):
        gathered = graph.op("Gather", graph.input(past, "float32", "R", *shape), rows)
        graph.output(gathered, present, "float32", "N", *shape)
    return writer.finish()


def score(config: ModelConfig, limits: Limits, weights: WeightsFile) -> Graph:
    """Score given translations, teacher-forced.

    Inputs are `input_ids` [B, S], `src_lengths` [B], `tgt_in_ids` [B, T], beginning with the start
    symbol, and `tgt_out_ids` [B, T], the same shifted by one. Outputs are `log_probs` [B, T] and
    `cross_attention` [B, L, H, T, S]; both are meaningless at padding.
    """
    writer = _Writer("score", config, limits, weights)
    graph = writer.graph
    input_ids = graph.input("input_ids", "int64", "B", "S")
    src_lengths = graph.input("src_lengths", "int64", "B")
    tgt_in_ids = graph.input("tgt_in_ids", "int64", "B", "T")
    tgt_out_ids = graph.input("tgt_out_ids", "int64", "B", "T")
    memory, src_keep_mask = writer.encode(input_ids, src_lengths)
    length = writer.size(tgt_in_ids, 1)
    places = graph.op("Range", graph.constant(0), length, graph.constant(1))
    column = graph.op("Unsqueeze", places, graph.constant([1]))
    causal = graph.op("LessOrEqual", places, column)  # [T, T]
    causal = graph.op("Unsqueeze", causal, graph.constant([0, 1]))  # [1, 1, T, T]
    weights_by_layer: list[str] = []

    def cross_attention(x: str, name: str) -> str:
        query = writer.split_heads(writer.linear(x, f"{name}.query"))
        key, value = writer.key_value(memory, name)
        attended, seen = writer.attend_in_the_open(query, key, value, src_keep_mask)
        weights_by_layer.append(graph.op("Unsqueeze", seen, graph.constant([1])))
        return writer.linear(writer.merge_heads(attended), f"{name}.output")

    x = writer.embed(tgt_in_ids, writer.first_positions(tgt_in_ids))
    for layer in range(config.decoder_layers):
        name = f"decoder_layers.{layer}"
        x = writer.residual(
            *(x, f"{name}.self_attention"),
            lambda y, part: writer.self_attention(y, part, causal),
        )
        x = writer.residual(x, f"{name}.cross_attention", cross_attention)
        x = writer.residual(x, f"{name}.feed_forward", writer.feed_forward)
    logits = writer.logits(writer.final_norm(x, "decoder_norm"))  # [B, T, V]
    all_scores = graph.op("LogSoftmax", logits, axis=-1)
    index = graph.op("Unsqueeze", tgt_out_ids, graph.constant([2]))
    gathered = graph.op("GatherElements", all_scores, index, axis=2)
    log_probs = graph.op("Squeeze", gathered, graph.constant([2]))
    graph.output(log_probs, "log_probs", "float32", "B", "T")
    attention = graph.op("Concat", *weights_by_layer, axis=1)
    shape = ("B", config.decoder_layers, config.heads, "T", "S")
    graph.output(attention, "cross_attention", "float32", *shape)
    return writer.finish()


def all_graphs(config: ModelConfig, limits: Limits, weights: WeightsFile) -> dict[str, Graph]:
    """Every graph of a bundle, by the name that the manifest gives it."""
    return {
        "encoder": encoder(config, limits, weights),
        "decoder_logits": decoder(config, limits, weights, "logits"),
        "decoder_topk": decoder(config, limits, weights, "topk"),
        "reorder": reorder(config, limits, weights),
        "score": score(config, limits, weights),
    }

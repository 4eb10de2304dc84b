"""The project's graphs: encoder, decoder step, best, reorder, score, attention.

A decoder with an SSRU has recurrent states instead of a self-attention cache.

Defines the inputs and outputs of each graph; the shape letters are explained in
`dragoman_training.network.transformer`. The graphs use only what both ONNX Runtime and TensorRT
support: TensorScatter writes each row's key and value at that row's own position into a cache that
is a graph input, and Attention reads the cache with an explicit mask. Encoder and decoder also
exist in int8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from dragoman_training.network.architecture import ModelConfig

from dragoman.kernel.manifest import GraphEntry, Limits, TensorEntry
from dragoman.kernel.tensors import (
    ATTENTION_GRAPH,
    REORDER_STATES,
    best_name,
    cross_names,
    past_names,
    present_names,
)
from dragoman_export.graphs.blocks import Blocks, OpenBlocks
from dragoman_export.graphs.graph_builder import GraphBuilder, WeightsFile
from dragoman_export.graphs.int8 import Int8Blocks

_BLOCK = 64
"""Maximum number of tokens in a block of the vocabulary."""


@dataclass(frozen=True)
class Graph:
    """A finished graph and its entry in the manifest."""

    model: onnx.ModelProto
    entry: GraphEntry


def finish(graph: GraphBuilder) -> Graph:
    """Build a graph and describe it."""
    entry = GraphEntry(f"{graph.name}.onnx", tuple(graph.inputs), tuple(graph.outputs))
    return Graph(graph.build(), entry)


def encoder(blocks: Blocks) -> Graph:
    """`input_ids` [B, S], `src_lengths` [B] to every layer's cross keys and values [B, H, S, D]."""
    graph, config = blocks.graph, blocks.config
    input_ids = graph.input("input_ids", "int64", "B", "S")
    src_lengths = graph.input("src_lengths", "int64", "B")
    memory, _ = blocks.encode(input_ids, src_lengths)
    batch = blocks.size(input_ids, 0)
    projected = [
        blocks.split_heads(value, batch)
        for layer in range(config.decoder_layers)
        for value in blocks.key_value(memory, f"decoder_layers.{layer}.cross_attention")
    ]
    for value, name in zip(projected, cross_names(config.decoder_layers), strict=True):
        graph.output(value, name, "float32", "B", config.heads, "S", config.head_size)
    return finish(graph)


def decoder(blocks: Blocks) -> Graph:
    """One step of R rows, each at its own position: B sentences of R / B hypotheses each.

    Inputs are `input_ids` [R], `positions` [R], `src_lengths` [B], the cross keys and values
    [B, H, S, D], which a sentence's hypotheses share, and the self-attention cache [R, H, C, D] of
    every layer, or the state [R, E] of a recurrent one, which is not read at position 0. Outputs
    are the cache with this step's keys and values in it or the new states, and `logits` [R, V].
    """
    graph, config = blocks.graph, blocks.config
    input_ids = graph.input("input_ids", "int64", "R")
    positions = graph.input("positions", "int64", "R")
    src_lengths = graph.input("src_lengths", "int64", "B")
    layers, shape = config.decoder_layers, (config.heads, "S", config.head_size)
    cross = [graph.input(name, "float32", "B", *shape) for name in cross_names(layers)]
    recurrent = config.decoder == "ssru"
    cache_shape: tuple[str, ...] = ("R", str(config.heads), "C", str(config.head_size))
    if recurrent:
        cache_shape = ("R", str(config.model_size))
    past = [graph.input(name, "float32", *cache_shape) for name in past_names(layers, recurrent)]
    present = [
        TensorEntry(name, "float32", cache_shape) for name in present_names(layers, recurrent)
    ]

    batch = blocks.size(src_lengths, 0)
    width = graph.op("Div", blocks.size(input_ids, 0), batch)
    src_keep_mask = blocks.length_mask(src_lengths, cross[0], 2)
    src_keep_mask = blocks.repeat_for_queries(src_keep_mask, width)
    if recurrent:
        first = graph.op("Equal", positions, graph.constant([0]))
        is_first = graph.op("Unsqueeze", first, graph.constant([1]))  # [R, 1]
    else:
        written = graph.op("Add", positions, graph.constant([1]))
        cache_keep_mask = blocks.length_mask(written, past[0], 2)
    x = blocks.embed(input_ids, graph.op("Gather", blocks.positions(), positions))  # [R, E]

    def cached_self_attention(x: str, name: str) -> str:
        # [R, 3E] to [R, 3H, 1, D] to three of [R, H, 1, D]
        heads = graph.constant([-1, 3 * config.heads, 1, config.head_size])
        parts = graph.op("Reshape", blocks.query_key_value(x, name), heads)
        query, *new = graph.split_op("Split", parts, outputs=3, axis=1, num_outputs=3)
        key, value = (
            graph.inplace_op(
                "TensorScatter",
                past.pop(0),
                part,
                positions,
                output=present.pop(0),
                axis=-2,
                mode="linear",
            )
            for part in new
        )
        attended = blocks.attend(query, key, value, cache_keep_mask)
        flat = graph.op("Reshape", attended, graph.constant([-1, config.model_size]))
        return blocks.output(flat, name)

    def recurrence(x: str, name: str) -> str:
        gate, candidate = blocks.gate_and_candidate(x, name)
        zero = graph.constant(0.0, np.float32)
        cell = graph.op("Where", is_first, zero, past.pop(0))
        return blocks.cell_output(blocks.next_cell(cell, gate, candidate, present.pop(0)))

    def cross_attention(x: str, name: str) -> str:
        query = blocks.split_heads(blocks.query(x, name), batch)
        attended = blocks.attend(query, cross.pop(0), cross.pop(0), src_keep_mask)
        return blocks.output(blocks.merge_heads(attended), name)

    for layer in range(layers):
        name = f"decoder_layers.{layer}"
        if recurrent:
            x = blocks.residual(x, f"{name}.ssru", recurrence)
        else:
            x = blocks.residual(x, f"{name}.self_attention", cached_self_attention)
        x = blocks.residual(x, f"{name}.cross_attention", cross_attention)
        x = blocks.residual(x, f"{name}.feed_forward", blocks.feed_forward)
    logits = blocks.logits(blocks.final_norm(x, "decoder_norm"))
    graph.output(logits, "logits", "float32", "R", config.vocab_size)
    return finish(graph)


def best(blocks: Blocks, k: int) -> Graph:
    """`logits` [R, V] to the log-probabilities [R, K] of the best K tokens, and their ids [R, K].

    Computes the log-softmax only for these: their logits relative to the best one, plus the
    logarithm of the best one's probability, which is never near zero.
    """
    graph, vocab_size = blocks.graph, blocks.config.vocab_size
    logits = graph.input("logits", "float32", "R", vocab_size)
    top, top_ids = _top(graph, logits, vocab_size, k)
    first = (graph.constant([0]), graph.constant([1]), graph.constant([1]))
    probabilities = graph.op("Softmax", logits, axis=-1)
    best_id = graph.op("Slice", top_ids, *first)  # [R, 1]
    best_probability = graph.op("GatherElements", probabilities, best_id, axis=1)
    relative = graph.op("Sub", top, graph.op("Slice", top, *first))
    scores = graph.op("Add", relative, graph.op("Log", best_probability))
    graph.output(scores, "top_scores", "float32", "R", k)
    graph.output(top_ids, "top_ids", "int64", "R", k)
    return finish(graph)


def _top(graph: GraphBuilder, logits: str, vocab_size: int, k: int) -> tuple[str, str]:
    """The K largest logits of each row, and their indices.

    They are in the K blocks with the largest maxima. Computing maxima is far cheaper than searching
    for the K largest, and that search is then over a few hundred candidates.
    """
    how_many = graph.constant([k])
    size = next((n for n in range(_BLOCK, 1, -1) if vocab_size % n == 0), vocab_size)
    if vocab_size // size < k:
        top, top_ids = graph.split_op("TopK", logits, how_many, outputs=2, axis=-1)
        return top, top_ids
    by_block = graph.op("Reshape", logits, graph.constant([0, vocab_size // size, size]))
    largest = graph.op("ReduceMax", by_block, graph.constant([-1]), keepdims=0)
    _, blocks = graph.split_op("TopK", largest, how_many, outputs=2, axis=-1)  # [R, K]
    index = graph.op("Unsqueeze", blocks, graph.constant([2]))
    candidates = graph.op("GatherND", by_block, index, batch_dims=1)  # [R, K, size]
    flat = graph.op("Reshape", candidates, graph.constant([0, k * size]))
    top, places = graph.split_op("TopK", flat, how_many, outputs=2, axis=-1)
    block_size = graph.constant(size)
    of_place = graph.op("Div", places, block_size)
    block = graph.op("GatherElements", blocks, of_place, axis=1)
    within = graph.op("Sub", places, graph.op("Mul", of_place, block_size))
    return top, graph.op("Add", graph.op("Mul", block, block_size), within)


def reorder(blocks: Blocks) -> Graph:
    """`rows` [N] and the cache [R, H, C, D] to the cache of those rows, in that order."""
    graph, config = blocks.graph, blocks.config
    layers = config.decoder_layers
    rows = graph.input("rows", "int64", "N")
    shape = (config.heads, "C", config.head_size)
    for past, present in zip(past_names(layers), present_names(layers), strict=True):
        gathered = graph.op("Gather", graph.input(past, "float32", "R", *shape), rows)
        graph.output(gathered, present, "float32", "N", *shape)
    return finish(graph)


def reorder_states(blocks: Blocks) -> Graph:
    """`rows` [N] and the states [R, E] of a recurrent decoder to those of these rows."""
    graph, config = blocks.graph, blocks.config
    layers, size = config.decoder_layers, config.model_size
    rows = graph.input("rows", "int64", "N")
    names = zip(past_names(layers, True), present_names(layers, True), strict=True)
    for past, present in names:
        gathered = graph.op("Gather", graph.input(past, "float32", "R", size), rows)
        graph.output(gathered, present, "float32", "N", size)
    return finish(graph)


def score(blocks: Blocks) -> Graph:
    """Score given translations, teacher-forced.

    Inputs are `input_ids` [B, S], `src_lengths` [B], `tgt_in_ids` [B, T], beginning with the start
    symbol, and `tgt_out_ids` [B, T], the same shifted by one. Outputs are `log_probs` [B, T] and
    `cross_attention` [B, L, H, T, S]; both are meaningless at padding.
    """
    graph, config = blocks.graph, blocks.config
    input_ids = graph.input("input_ids", "int64", "B", "S")
    src_lengths = graph.input("src_lengths", "int64", "B")
    tgt_in_ids = graph.input("tgt_in_ids", "int64", "B", "T")
    tgt_out_ids = graph.input("tgt_out_ids", "int64", "B", "T")
    memory, src_keep_mask = blocks.encode(input_ids, src_lengths)
    batch, length = blocks.size(tgt_in_ids, 0), blocks.size(tgt_in_ids, 1)
    x, weights_by_layer = _decode(blocks, tgt_in_ids, batch, length, memory, src_keep_mask)
    logits = blocks.logits(blocks.final_norm(x, "decoder_norm"))  # [B x T, V]
    shape = graph.op("Concat", batch, length, graph.constant([config.vocab_size]), axis=0)
    all_scores = graph.op("LogSoftmax", graph.op("Reshape", logits, shape), axis=-1)
    index = graph.op("Unsqueeze", tgt_out_ids, graph.constant([2]))
    gathered = graph.op("GatherElements", all_scores, index, axis=2)
    log_probs = graph.op("Squeeze", gathered, graph.constant([2]))
    graph.output(log_probs, "log_probs", "float32", "B", "T")
    attention = graph.op("Concat", *weights_by_layer, axis=1)
    attention_shape = ("B", config.decoder_layers, config.heads, "T", "S")
    graph.output(attention, "cross_attention", "float32", *attention_shape)
    return finish(graph)


def attention(blocks: OpenBlocks) -> Graph:
    """All attention weights of a model that reads a source and generates a given translation.

    Inputs are `input_ids` [B, S], `src_lengths` [B] and `tgt_in_ids` [B, T], beginning with the
    start symbol. Outputs are the weights of every layer's heads: `encoder_attention` [B, L, H, S,
    S], `decoder_attention` [B, L, H, T, T] and `cross_attention` [B, L, H, T, S]. A recurrent
    decoder has no self-attention: its L is 0.
    """
    graph, config = blocks.graph, blocks.config
    input_ids = graph.input("input_ids", "int64", "B", "S")
    src_lengths = graph.input("src_lengths", "int64", "B")
    tgt_in_ids = graph.input("tgt_in_ids", "int64", "B", "T")
    memory, src_keep_mask = blocks.encode(input_ids, src_lengths)
    of_encoder = list(blocks.weights)
    batch, length = blocks.size(tgt_in_ids, 0), blocks.size(tgt_in_ids, 1)
    _, of_cross = _decode(blocks, tgt_in_ids, batch, length, memory, src_keep_mask)
    # The cross-attention's stand between them.
    of_decoder = [] if config.decoder == "ssru" else blocks.weights[len(of_encoder) :: 2]
    one = graph.constant([1])
    for name, layers, shape in (
        ("encoder_attention", [graph.op("Unsqueeze", x, one) for x in of_encoder], ("S", "S")),
        ("decoder_attention", [graph.op("Unsqueeze", x, one) for x in of_decoder], ("T", "T")),
        ("cross_attention", of_cross, ("T", "S")),
    ):
        if layers:
            joined = graph.op("Concat", *layers, axis=1)
        else:
            heads = graph.constant([0, config.heads])
            joined = graph.op(
                "ConstantOfShape", graph.op("Concat", batch, heads, length, length, axis=0)
            )
        graph.output(joined, name, "float32", "B", len(layers), config.heads, *shape)
    return finish(graph)


def _decode(
    blocks: Blocks, tgt_in_ids: str, batch: str, length: str, memory: str, src_keep_mask: str
) -> tuple[str, list[str]]:
    """The decoder over whole prefixes [B, T]: the last layer's output [B x T, E], before the norm.

    Also every layer's cross-attention weights [B, 1, H, T, S].
    """
    graph, config = blocks.graph, blocks.config
    places = graph.op("Range", graph.constant(0), graph.op("Squeeze", length), graph.constant(1))
    column = graph.op("Unsqueeze", places, graph.constant([1]))
    causal = graph.op("LessOrEqual", places, column)  # [T, T]
    causal = graph.op("Unsqueeze", causal, graph.constant([0, 1]))  # [1, 1, T, T]
    weights_by_layer: list[str] = []

    def self_attention(x: str, name: str) -> str:
        return blocks.self_attention(x, name, batch, causal)

    def recurrence(x: str, name: str) -> str:
        return blocks.cell_output(blocks.all_cells(x, name, batch))

    def cross_attention(x: str, name: str) -> str:
        query = blocks.split_heads(blocks.query(x, name), batch)
        key, value = (blocks.split_heads(part, batch) for part in blocks.key_value(memory, name))
        attended, seen = blocks.attend_in_the_open(query, key, value, src_keep_mask)
        weights_by_layer.append(graph.op("Unsqueeze", seen, graph.constant([1])))
        return blocks.output(blocks.merge_heads(attended), name)

    x = blocks.embed(tgt_in_ids, blocks.first_positions(tgt_in_ids))
    x = graph.op("Reshape", x, graph.constant([-1, config.model_size]))
    for layer in range(config.decoder_layers):
        name = f"decoder_layers.{layer}"
        if config.decoder == "ssru":
            x = blocks.residual(x, f"{name}.ssru", recurrence)
        else:
            x = blocks.residual(x, f"{name}.self_attention", self_attention)
        x = blocks.residual(x, f"{name}.cross_attention", cross_attention)
        x = blocks.residual(x, f"{name}.feed_forward", blocks.feed_forward)
    return x, weights_by_layer


def all_graphs(config: ModelConfig, limits: Limits, weights: WeightsFile) -> dict[str, Graph]:
    """Every graph of a bundle, by the name that the manifest gives it."""

    def fp32(name: str) -> Blocks:
        return Blocks(GraphBuilder(name, weights), config, limits)

    def int8(name: str) -> Blocks:
        return Int8Blocks(GraphBuilder(name, weights), config, limits)

    graphs = [
        encoder(fp32("encoder")),
        encoder(int8("encoder_int8")),
        decoder(fp32("decoder")),
        decoder(int8("decoder_int8")),
        *(best(fp32(best_name(k)), k) for k in limits.best_sizes),
        reorder(fp32("reorder")),
        *([reorder_states(fp32(REORDER_STATES))] if config.decoder == "ssru" else []),
        score(fp32("score")),
        attention(OpenBlocks(GraphBuilder(ATTENTION_GRAPH, weights), config, limits)),
    ]
    return {graph.model.graph.name: graph for graph in graphs}

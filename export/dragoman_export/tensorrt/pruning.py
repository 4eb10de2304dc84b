"""Removes the parts of a graph that no output needs."""

from __future__ import annotations

import onnx


def prune(graph: onnx.GraphProto) -> None:
    """Remove nodes and weights that are no longer needed."""
    needed = {value.name for value in graph.output}
    kept = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            needed.update(node.input)
            kept.append(node)
    del graph.node[:]
    graph.node.extend(reversed(kept))
    weights = [weight for weight in graph.initializer if weight.name in needed]
    del graph.initializer[:]
    graph.initializer.extend(weights)

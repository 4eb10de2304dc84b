"""Names of graphs, inputs, outputs and stored scales: export writes them, serving binds them."""

from __future__ import annotations

SCALES = ".scales"
"""Ends the name of the scales [M, 1] of a weight [M, K] that is stored in int8."""


def cross_names(layers: int) -> list[str]:
    """Returns the names of the cross-attention keys and values of every decoder layer.

    They are outputs of the encoder and inputs of the step.
    """
    return [f"cross_{kind}_{layer}" for layer in range(layers) for kind in ("key", "value")]


def past_names(layers: int, recurrent: bool = False) -> list[str]:
    """Returns the names of the self-attention cache, or of recurrent states, before a step."""
    return _names("past", layers, recurrent)


def present_names(layers: int, recurrent: bool = False) -> list[str]:
    """Returns the names of the same tensors after a step, in the order of `past_names`."""
    return _names("present", layers, recurrent)


def _names(when: str, layers: int, recurrent: bool) -> list[str]:
    kinds = ("state",) if recurrent else ("key", "value")
    return [f"{when}_{kind}_{layer}" for layer in range(layers) for kind in kinds]


def cache_tensors(layers: int) -> set[str]:
    """Returns the names of all tensors that hold keys or values."""
    return {*cross_names(layers), *past_names(layers), *present_names(layers)}


def plan_name(name: str, precision: str, compute_capability: str, library: str) -> str:
    """Returns the file name of a TensorRT plan."""
    return f"{name}_{precision}_sm{compute_capability.replace('.', '')}_{library}.plan"


def plain_name(graph: str) -> str:
    """Returns the name of a graph's plan for Triton's own TensorRT backend.

    That plan does not update the cache in place.
    """
    return f"{graph}_plain"


def best_name(k: int) -> str:
    """Returns the name of the graph that selects the top-k tokens."""
    return f"best_{k}"


REORDER_STATES = "reorder_states"
"""The graph that reorders a recurrent decoder's states."""
ATTENTION_GRAPH = "attention"
"""The graph with the attention of every head; bundles of earlier versions have none."""
ATTENTION_NAMES = ("encoder_attention", "decoder_attention", "cross_attention")
"""Its outputs."""

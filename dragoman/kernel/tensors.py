"""Names of graphs, their inputs and outputs: export writes them, serving binds them."""

from __future__ import annotations


def cross_names(layers: int) -> list[str]:
    """Cross-attention keys and values of every decoder layer, out of the encoder, into the step."""
    return [f"cross_{kind}_{layer}" for layer in range(layers) for kind in ("key", "value")]


def past_names(layers: int) -> list[str]:
    """The self-attention cache before a step."""
    return [f"past_{kind}_{layer}" for layer in range(layers) for kind in ("key", "value")]


def present_names(layers: int) -> list[str]:
    """The self-attention cache after a step, in the order of `past_names`."""
    return [f"present_{kind}_{layer}" for layer in range(layers) for kind in ("key", "value")]


def cache_tensors(layers: int) -> set[str]:
    """All that holds keys or values."""
    return {*cross_names(layers), *past_names(layers), *present_names(layers)}


def plan_name(name: str, precision: str, compute_capability: str, library: str) -> str:
    """File of a TensorRT plan."""
    return f"{name}_{precision}_sm{compute_capability.replace('.', '')}_{library}.plan"


def plain_name(graph: str) -> str:
    """A graph's plan for Triton's own TensorRT backend, whose cache is not updated in place."""
    return f"{graph}_plain"


def best_name(k: int) -> str:
    """The graph that picks the best K tokens."""
    return f"best_{k}"


ATTENTION_GRAPH = "attention"
"""The graph of the attention of every head; bundles of earlier versions have none."""
ATTENTION_NAMES = ("encoder_attention", "decoder_attention", "cross_attention")
"""Its outputs."""

"""A smaller model made of a larger one: some of its layers, and some of their feed-forward units.

Source: Shleifer & Rush 2020, "Pre-trained Summarization Distillation",
https://arxiv.org/abs/2010.13002
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from dragoman_training.network.architecture import ModelConfig

MAY_SHRINK = frozenset({"encoder_layers", "decoder_layers", "feed_forward_size"})
"""Settings that may be smaller than those of the model that the weights come from."""

_STACKS = ("encoder_layers", "decoder_layers")


def shrink(
    weights: Mapping[str, Tensor], had: ModelConfig, wanted: ModelConfig
) -> dict[str, Tensor]:
    """The weights that a smaller model begins with; what need not shrink is the same tensor.

    Args:
        weights: a `Transformer`'s, by name.
        had: what it was built with.
        wanted: the smaller one, different in `MAY_SHRINK` and the vocabulary alone.

    Returns:
        Weights by name, the embedding still that of the larger model.
    """
    kept = {name: weight for name, weight in weights.items() if not name.startswith(_STACKS)}
    for stack in _STACKS:
        layers = spaced(getattr(had, stack), getattr(wanted, stack))
        for number, layer in enumerate(layers):
            prefix = f"{stack}.{layer}."
            of_layer = {
                name.removeprefix(prefix): weight
                for name, weight in weights.items()
                if name.startswith(prefix)
            }
            if wanted.feed_forward_size < had.feed_forward_size:
                of_layer |= _strongest_units(of_layer, wanted.feed_forward_size)
            kept |= {f"{stack}.{number}.{name}": weight for name, weight in of_layer.items()}
    return kept


def spaced(had: int, wanted: int) -> list[int]:
    """Which layers are kept: the first, the last, and evenly between; of one, the last."""
    if wanted == 1:
        return [had - 1]
    return [round(number * (had - 1) / (wanted - 1)) for number in range(wanted)]


def _strongest_units(layer: Mapping[str, Tensor], wanted: int) -> dict[str, Tensor]:
    """A layer's feed-forward weights with those units alone whose weights are the largest."""
    inner, bias = layer["feed_forward.inner.weight"], layer["feed_forward.inner.bias"]  # [F, E]
    outer = layer["feed_forward.outer.weight"]  # [E, F]
    read = (inner * layer["feed_forward_norm.weight"]).norm(dim=1)  # of inputs of unit variance
    units = torch.topk(read * outer.norm(dim=0), wanted).indices.sort().values
    return {
        "feed_forward.inner.weight": inner[units],
        "feed_forward.inner.bias": bias[units],
        "feed_forward.outer.weight": outer[:, units],
    }

"""Prune a model: keep some of its layers, and some of their feed-forward units.

Source: Shleifer & Rush 2020, "Pre-trained Summarization Distillation",
https://arxiv.org/abs/2010.13002
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from dragoman_training.network.architecture import ModelConfig

MAY_SHRINK = frozenset({"encoder_layers", "decoder_layers", "feed_forward_size"})
"""Settings that may be smaller than those of the original model."""

_STACKS = ("encoder_layers", "decoder_layers")


def shrink(weights: Mapping[str, Tensor], had: ModelConfig, new: ModelConfig) -> dict[str, Tensor]:
    """The initial weights of a smaller model; tensors that need not shrink are shared.

    Args:
        weights: a `Transformer`'s, by name.
        had: configuration of the original model.
        new: configuration of the smaller model; differs only in `MAY_SHRINK` and the vocabulary.

    Returns:
        Weights by name; the embedding is still the larger model's.
    """
    kept = {name: weight for name, weight in weights.items() if not name.startswith(_STACKS)}
    for stack in _STACKS:
        layers = spaced(getattr(had, stack), getattr(new, stack))
        for number, layer in enumerate(layers):
            prefix = f"{stack}.{layer}."
            of_layer = {
                name.removeprefix(prefix): weight
                for name, weight in weights.items()
                if name.startswith(prefix)
            }
            if new.feed_forward_size < had.feed_forward_size:
                of_layer |= _strongest_units(of_layer, new.feed_forward_size)
            kept |= {f"{stack}.{number}.{name}": weight for name, weight in of_layer.items()}
    return kept


def spaced(had: int, kept: int) -> list[int]:
    """Indices of the kept layers: first, last, and evenly spaced between; if only one, the last."""
    if kept == 1:
        return [had - 1]
    return [round(number * (had - 1) / (kept - 1)) for number in range(kept)]


def _strongest_units(layer: Mapping[str, Tensor], count: int) -> dict[str, Tensor]:
    """A layer's feed-forward weights, only the units with the largest weights."""
    inner, bias = layer["feed_forward.inner.weight"], layer["feed_forward.inner.bias"]  # [F, E]
    outer = layer["feed_forward.outer.weight"]  # [E, F]
    read = (inner * layer["feed_forward_norm.weight"]).norm(dim=1)  # for inputs of unit variance
    units = torch.topk(read * outer.norm(dim=0), count).indices.sort().values
    return {
        "feed_forward.inner.weight": inner[units],
        "feed_forward.inner.bias": bias[units],
        "feed_forward.outer.weight": outer[:, units],
    }

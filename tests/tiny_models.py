"""Tiny models with random weights."""

from __future__ import annotations

from dataclasses import replace

import torch
from dragoman_training.network.architecture import ModelConfig
from dragoman_training.network.transformer import Transformer

VOCAB_SIZE = 320


def tiny_config(norm: str = "post") -> ModelConfig:
    """A tiny model, with every dimension different."""
    return ModelConfig(
        vocab_size=VOCAB_SIZE,
        model_size=64,
        feed_forward_size=192,
        heads=4,
        encoder_layers=2,
        decoder_layers=3,
        norm=norm,  # type: ignore[arg-type]
    )


def tiny_model(norm: str = "post", seed: int = 0, config: ModelConfig | None = None) -> Transformer:
    """A random model in evaluation mode; its logits are spread out so that no two are close."""
    torch.manual_seed(seed)
    model = Transformer(config or tiny_config(norm)).eval()
    with torch.no_grad():
        model.embedding.weight.mul_(3.0)
    return model


def ssru_config(norm: str = "post") -> ModelConfig:
    """A model like Firefox's: an SSRU decoder, and Marian's biases, epsilon and positions."""
    return replace(
        tiny_config(norm),
        decoder="ssru",
        attention_bias=True,
        output_bias=True,
        norm_epsilon=1e-6,
        position_rates="inclusive",
    )


def elaborate_config() -> ModelConfig:
    """A model with every feature that only imported models have."""
    return replace(
        tiny_config(),
        activation="gelu",
        attention_bias=True,
        output_bias=True,
        src_vocab_size=VOCAB_SIZE,
        own_output=True,
    )

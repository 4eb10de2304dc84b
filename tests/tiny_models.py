"""Tiny models with random weights."""

from __future__ import annotations

from dataclasses import replace

import torch
from dragoman_training.network.architecture import NEVER, ModelConfig
from dragoman_training.network.transformer import Transformer

from dragoman.kernel.text import BEGIN_ID, UNKNOWN_ID

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


def random_ssru_model(norm: str = "post") -> Transformer:
    """A random model with an SSRU decoder, which reads a zero embedding at the first step and never
    generates `<unk>`, like Firefox's."""
    model = tiny_model(seed=2, config=ssru_config(norm))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias") and "norm" not in name:
                weight.normal_(std=0.3)
        model.embedding.weight[BEGIN_ID] = 0.0
        model.output_bias[[BEGIN_ID, UNKNOWN_ID]] = NEVER
    return model


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


def random_elaborate_model() -> Transformer:
    """A random model with every feature that only imported models have."""
    torch.manual_seed(0)
    model = Transformer(elaborate_config())
    with torch.no_grad():
        model.own_output.weight.mul_(3.0)
        for name, weight in model.named_parameters():
            if name.endswith("bias"):
                weight.normal_(std=0.3)
    return model

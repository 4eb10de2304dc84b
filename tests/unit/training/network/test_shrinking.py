from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from dragoman_training.network.shrinking import shrink, spaced
from dragoman_training.network.transformer import Transformer

from tests.tiny_models import tiny_config


@pytest.mark.parametrize(
    ("had", "kept", "layers"),
    [(6, 6, [0, 1, 2, 3, 4, 5]), (6, 3, [0, 2, 5]), (6, 2, [0, 5]), (3, 1, [2]), (1, 1, [0])],
)
def test_layers_are_kept_from_the_first_to_the_last(had: int, kept: int, layers: list[int]) -> None:
    assert spaced(had, kept) == layers


def test_kept_layers_keep_their_weights() -> None:
    config = replace(tiny_config("pre"), encoder_layers=4, decoder_layers=3)
    larger = Transformer(config)
    smaller = replace(config, encoder_layers=2, decoder_layers=1)
    weights = larger.state_dict()
    shrunk = shrink(weights, config, smaller)
    Transformer(smaller).load_state_dict(shrunk)  # all names exist
    for name, tensor in shrunk.items():
        former = name.replace("encoder_layers.1.", "encoder_layers.3.")
        former = former.replace("decoder_layers.0.", "decoder_layers.2.")
        assert torch.equal(tensor, weights[former]), name


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_units_without_effect_are_removed(norm: str) -> None:
    """The smaller model gives the same results as the larger one."""
    config = tiny_config(norm)
    larger = Transformer(config).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for layer in (*larger.encoder_layers, *larger.decoder_layers):
            units = config.feed_forward_size
            idle = torch.randperm(units, generator=generator)[: units // 2]
            # One half of those units has no inputs, and the other half no outputs.
            layer.feed_forward.inner.weight[idle[::2]] = 0.0
            layer.feed_forward.inner.bias[idle[::2]] = 0.0
            layer.feed_forward.outer.weight[:, idle[1::2]] = 0.0
    smaller_config = replace(config, feed_forward_size=config.feed_forward_size // 2)
    smaller = Transformer(smaller_config).eval()
    smaller.load_state_dict(shrink(larger.state_dict(), config, smaller_config))
    src = torch.randint(10, config.vocab_size, (2, 7), generator=generator)
    tgt = torch.randint(10, config.vocab_size, (2, 5), generator=generator)
    with torch.no_grad():
        output, right = (model(src, src > 0, tgt) for model in (smaller, larger))
    torch.testing.assert_close(output, right, atol=1e-4, rtol=1e-4)

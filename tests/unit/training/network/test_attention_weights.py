from __future__ import annotations

import pytest
import torch
from dragoman_training.network.attention_weights import look, looking_at
from dragoman_training.network.transformer import Transformer, attention, attention_weights
from torch import Tensor

from tests.tiny_models import tiny_model


def padded() -> tuple[Tensor, Tensor, Tensor]:
    """Three sources of different lengths, and prefixes of their targets."""
    generator = torch.Generator().manual_seed(1)
    src_ids = torch.randint(6, 300, (3, 9), generator=generator)
    keep_mask = torch.arange(9) < torch.tensor([[9], [4], [1]])
    return src_ids, keep_mask, torch.randint(6, 300, (3, 5), generator=generator)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_rows_sum_to_one_and_masked_positions_are_zero(norm: str) -> None:
    src_ids, keep_mask, tgt_ids = padded()
    encoder, decoder, cross = look(tiny_model(norm), src_ids, keep_mask, tgt_ids)
    assert encoder.shape == (3, 2, 4, 9, 9)
    assert decoder.shape == (3, 3, 4, 5, 5)
    assert cross.shape == (3, 3, 4, 5, 9)
    for weights in (encoder, decoder, cross):
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert (decoder.triu(1) == 0).all()
    for sentence, keep in enumerate(keep_mask):
        assert (encoder[sentence, ..., ~keep] == 0).all()
        assert (cross[sentence, ..., ~keep] == 0).all()


def test_the_weights_equal_those_that_the_model_uses() -> None:
    # The first layer, by hand, from its embedded input.
    src_ids, keep_mask, tgt_ids = padded()
    model = tiny_model()
    encoder, _, _ = look(model, src_ids, keep_mask, tgt_ids)
    module = model.encoder_layers[0].self_attention
    with torch.no_grad():
        x = model._embed(src_ids, model.embedding)
        _, value = module.key_value(x).chunk(2, dim=-1)  # type: ignore[operator, union-attr]
        heads = value.view(3, 9, 4, 16).transpose(1, 2)
        attended = (encoder[:, 0] @ heads).transpose(1, 2).flatten(2)
        expected = module(x, x, keep_mask[:, None, None, :])  # type: ignore[operator]
        torch.testing.assert_close(module.output(attended), expected)  # type: ignore[operator, union-attr]


def test_attention_is_its_weights_times_the_values() -> None:
    query, key, value = torch.randn(3, 2, 4, 6, 8).unbind(0)
    keep = torch.ones(6, 6, dtype=torch.bool).tril()
    assert torch.equal(
        attention(query, key, value, keep), attention_weights(query, key, keep) @ value
    )


def test_recording_changes_nothing_and_ends() -> None:
    src_ids, keep_mask, tgt_ids = padded()
    model = tiny_model()

    def run(model: Transformer) -> Tensor:
        with torch.no_grad():
            output: Tensor = model(src_ids, keep_mask, tgt_ids)
            return output

    before = run(model)
    with looking_at(model) as seen:
        assert torch.equal(run(model), before)
    assert set(seen) == {
        *(f"encoder_layers.{layer}.self_attention" for layer in range(2)),
        *(
            f"decoder_layers.{layer}.{side}_attention"
            for layer in range(3)
            for side in ("self", "cross")
        ),
    }
    seen.clear()
    run(model)
    assert not seen

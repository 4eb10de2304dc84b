"""Record a model's attention weights without changing how it computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from dragoman_training.network.transformer import MultiHeadAttention, Transformer


@contextmanager
def looking_at(model: Transformer) -> Iterator[dict[str, Tensor]]:
    """While the context is open, each run of the model records its attention weights.

    They are computed a second time beside the run, from each module's own queries and keys:
    attention in a fused kernel never materializes them.

    Yields:
        A dict of weights [B, H, T, S] by module name, such as
        `encoder_layers.0.self_attention`; it is filled when the model runs.
    """
    seen: dict[str, Tensor] = {}

    @torch.no_grad()
    def keep(name: str, module: nn.Module, inputs: tuple[Tensor, Tensor, Tensor]) -> None:
        assert isinstance(module, MultiHeadAttention)
        seen[name] = module.weights(*inputs)

    handles = [
        module.register_forward_pre_hook(partial(keep, name))
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    ]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def look(
    model: Transformer, src_ids: Tensor, src_keep_mask: Tensor, tgt_ids: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention weights of every head, teacher-forced.

    Args:
        model: in evaluation mode.
        src_ids: int64 [B, S].
        src_keep_mask: bool [B, S].
        tgt_ids: int64 [B, T], beginning with the start symbol.

    Returns:
        Weights [B, L, H, S, S] of the encoder's self-attention, [B, L, H, T, T] of the decoder's
        and [B, L, H, T, S] of the decoder's attention to the encoder. A decoder with an SSRU has
        no self-attention: its L is 0.
    """
    with looking_at(model) as seen:
        model(src_ids, src_keep_mask, tgt_ids)
    encoder, decoder = len(model.encoder_layers), len(model.decoder_layers)
    cross = _stacked(seen, "decoder_layers.{}.cross_attention", decoder)
    if model.config.decoder == "ssru":
        rows, steps = tgt_ids.shape
        of_decoder = cross.new_zeros(rows, 0, model.config.heads, steps, steps)
    else:
        of_decoder = _stacked(seen, "decoder_layers.{}.self_attention", decoder)
    return _stacked(seen, "encoder_layers.{}.self_attention", encoder), of_decoder, cross


def _stacked(seen: dict[str, Tensor], name: str, layers: int) -> Tensor:
    return torch.stack([seen[name.format(layer)] for layer in range(layers)], dim=1)

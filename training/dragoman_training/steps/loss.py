"""Label-smoothed cross-entropy, fused with the output projection."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dragoman.kernel.text import PAD_ID
from dragoman_training.network.architecture import NEVER, Precision
from dragoman_training.network.precision import lower_dtype
from dragoman_training.network.transformer import Transformer
from dragoman_training.text.examples import Batch

ROWS_A_CHUNK = 512
"""Positions projected at once; only their logits are in memory, not the whole batch's."""


class _ProjectedCrossEntropy(torch.autograd.Function):
    """Computes both gradients during the forward pass, one chunk of rows at a time."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        smoothing: float,
    ) -> Tensor:
        device_type = hidden.device.type
        autocast = torch.is_autocast_enabled(device_type)
        dtype = torch.get_autocast_dtype(device_type) if autocast else hidden.dtype
        with torch.autocast(device_type, enabled=False):
            hidden_low, weight_low = hidden.to(dtype), weight.to(dtype)
            hidden_grad = torch.empty_like(hidden_low)
            weight_grad = torch.zeros_like(weight)
            bias_grad = None if bias is None else torch.zeros_like(bias)
            uniform = _uniform(weight, bias)
            loss = hidden.new_zeros((), dtype=torch.float32)
            for start in range(0, len(target), ROWS_A_CHUNK):
                rows = slice(start, start + ROWS_A_CHUNK)
                gold = target[rows, None]
                logits = (hidden_low[rows] @ weight_low.T).float()  # [n, V]
                if bias is not None:
                    logits += bias
                peak = logits.amax(dim=-1, keepdim=True)
                logits.sub_(peak)
                gold_logit, mean_logit = logits.gather(1, gold), (logits @ uniform)[:, None]
                grad = logits.exp_()
                total = grad.sum(dim=-1, keepdim=True)
                expected = (1 - smoothing) * gold_logit + smoothing * mean_logit
                loss += (total.log() - expected).sum()
                # d loss / d logits = softmax - smoothed target
                grad.div_(total).sub_(smoothing * uniform)
                grad.scatter_add_(1, gold, torch.full_like(total, smoothing - 1))
                grad_low = grad.to(dtype)
                hidden_grad[rows] = grad_low @ weight_low
                weight_grad += grad_low.T @ hidden_low[rows]
                if bias_grad is not None:
                    bias_grad += grad.sum(dim=0)
        ctx.save_for_backward(hidden_grad, weight_grad, bias_grad)
        ctx.hidden_dtype = hidden.dtype
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor | None, None, None]:
        hidden_grad, weight_grad, bias_grad = ctx.saved_tensors
        bias_grad = None if bias_grad is None else bias_grad * grads[0]
        hidden_grad = hidden_grad.to(ctx.hidden_dtype) * grads[0]
        return hidden_grad, weight_grad * grads[0], bias_grad, None, None


def _uniform(weight: Tensor, bias: Tensor | None) -> Tensor:
    """The distribution [V] that smoothing mixes in: uniform over the allowed entries.

    A forbidden entry's bias therefore gets no gradient, and stays `NEVER`.
    """
    allowed = torch.ones(len(weight), device=weight.device)
    if bias is not None:
        allowed[bias <= NEVER / 2] = 0.0
    return allowed / allowed.sum()


def projected_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    smoothing: float,
    bias: Tensor | None = None,
) -> Tensor:
    """Sum over positions of the label-smoothed cross-entropy of `hidden @ weight.T + bias`.

    If no entry is forbidden, it equals `F.cross_entropy(..., label_smoothing=smoothing,
    reduction="sum")`, but is four times faster on a CPU and needs no tensor of all logits.

    Args:
        hidden: [N, E], decoder output at the positions that count.
        weight: [V, E], the output projection.
        target: int64 [N].
        smoothing: probability that is spread uniformly over the allowed entries.
        bias: [V]; `NEVER` for a forbidden entry.

    Returns:
        float32 scalar, in nats.

    Source: Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4.
    """
    arguments = (hidden, weight, bias, target, smoothing)
    loss: Tensor = _ProjectedCrossEntropy.apply(*arguments)  # type: ignore[no-untyped-call]
    return loss


def summed_loss(model: Transformer, batch: Batch, smoothing: float, precision: Precision) -> Tensor:
    """Sum of the loss over a batch's target tokens, on the model's device."""
    device = model.embedding.weight.device
    src, tgt_out = batch.src_ids.to(device), batch.tgt_out_ids.to(device)
    dtype = lower_dtype(precision, device)
    with torch.autocast(device.type, dtype, enabled=dtype is not None):
        hidden = model(src, src != PAD_ID, batch.tgt_in_ids.to(device))
        counted = tgt_out != PAD_ID
        weight, bias = model.output
        return projected_cross_entropy(hidden[counted], weight, tgt_out[counted], smoothing, bias)

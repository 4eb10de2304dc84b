"""Label-smoothed cross-entropy, also with a teacher, fused with the output projection."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dragoman.kernel.text import PAD_ID
from dragoman_training.network.architecture import NEVER, Precision
from dragoman_training.network.precision import lower_dtype
from dragoman_training.network.transformer import Transformer
from dragoman_training.text.examples import Batch

ROWS_A_CHUNK, _ROWS_ON_GPU = 512, 8192
"""Positions projected at once; only their logits are in memory, not the whole batch's."""


class Teacher(NamedTuple):
    """A trained model whose distribution is a part of the target."""

    model: Transformer
    """In evaluation mode, without gradients, with the vocabulary of the trained model."""
    share: float
    """Of the target; the references have the rest."""


class Taught(NamedTuple):
    """A teacher's output at the positions that count."""

    hidden: Tensor
    """[N, E'], before the teacher's projection."""
    weight: Tensor
    """[V, E'], the teacher's projection."""
    bias: Tensor | None
    """[V]."""
    share: float

    def distribution(self, rows: slice, dtype: torch.dtype) -> Tensor:
        """The teacher's probabilities [n, V] for some rows, in fp32."""
        logits = (self.hidden[rows].to(dtype) @ self.weight.to(dtype).T).float()
        return (logits if self.bias is None else logits + self.bias).softmax(dim=-1)


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
        compiled: bool,
        taught: Taught | None,
    ) -> Tensor:
        device_type = hidden.device.type
        autocast = torch.is_autocast_enabled(device_type)
        dtype = torch.get_autocast_dtype(device_type) if autocast else hidden.dtype
        rows_a_chunk = ROWS_A_CHUNK if device_type == "cpu" else _ROWS_ON_GPU
        of_chunk = _compiled_chunk() if compiled else _of_chunk
        with torch.autocast(device_type, enabled=False):
            hidden_low, weight_low = hidden.to(dtype), weight.to(dtype)
            hidden_grad = torch.empty_like(hidden_low)
            weight_grad = torch.zeros_like(weight)
            bias_grad = None if bias is None else torch.zeros_like(bias)
            uniform = _uniform(weight, bias)
            loss = hidden.new_zeros((), dtype=torch.float32)
            share = taught.share if taught else 0.0
            for start in range(0, len(target), rows_a_chunk):
                rows = slice(start, start + rows_a_chunk)
                product = hidden_low[rows] @ weight_low.T  # [n, V]
                gold = target[rows, None]
                theirs = taught.distribution(rows, dtype) if taught else None
                of_rows, grad, of_bias = of_chunk(
                    product, bias, gold, uniform, smoothing, theirs, share
                )
                loss += of_rows
                hidden_grad[rows] = grad @ weight_low
                weight_grad += grad.T @ hidden_low[rows]
                if bias_grad is not None and of_bias is not None:
                    bias_grad += of_bias
        ctx.save_for_backward(hidden_grad, weight_grad, bias_grad)
        ctx.hidden_dtype = hidden.dtype
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden_grad, weight_grad, bias_grad = ctx.saved_tensors
        bias_grad = None if bias_grad is None else bias_grad * grads[0]
        hidden_grad = hidden_grad.to(ctx.hidden_dtype) * grads[0]
        return hidden_grad, weight_grad * grads[0], bias_grad, None, None, None, None


def _of_chunk(
    product: Tensor,
    bias: Tensor | None,
    gold: Tensor,
    uniform: Tensor,
    smoothing: float,
    theirs: Tensor | None,
    share: float,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The summed loss of some rows, and its gradients with respect to their logits and the bias."""
    # In place: on a CPU, memory for another tensor of logits costs as much as the arithmetic.
    logits = product.float()
    if bias is not None:
        logits += bias
    peak = logits.amax(dim=-1, keepdim=True)
    logits.sub_(peak)
    mean_logit = logits.mean(dim=-1) if bias is None else logits @ uniform
    expected = (1 - smoothing) * logits.gather(1, gold) + smoothing * mean_logit[:, None]
    if theirs is not None:
        of_teacher = torch.linalg.vecdot(logits, theirs)[:, None]
        expected = (1 - share) * expected + share * of_teacher
    grad = logits.exp_()
    total = grad.sum(dim=-1, keepdim=True)
    loss = (total.log() - expected).sum()
    # d loss / d logits = softmax - target
    grad.div_(total).sub_((1 - share) * smoothing * uniform)
    if theirs is not None:
        grad.sub_(theirs, alpha=share)
    of_gold = (1 - share) * (1 - smoothing)
    if torch.compiler.is_compiling():  # one pass instead of a scatter in memory
        is_gold = torch.arange(grad.size(1), device=grad.device) == gold
        grad = grad - is_gold * of_gold
    else:
        grad.scatter_add_(1, gold, torch.full_like(total, -of_gold))
    return loss, grad.to(product.dtype), None if bias is None else grad.sum(dim=0)


@cache
def _compiled_chunk() -> Callable[..., tuple[Tensor, Tensor, Tensor | None]]:
    return torch.compile(_of_chunk, dynamic=True)


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
    compiled: bool = False,
    taught: Taught | None = None,
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
        compiled: fuse the arithmetic on logits with PyTorch's compiler.
        taught: the teacher's output at the same positions. Its distribution has its share of the
            target, and the smoothed `target` the rest.

    Returns:
        float32 scalar, in nats.

    Source: Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4; with a teacher: Kim
    and Rush 2016, section 3.1.
    """
    arguments = (hidden, weight, bias, target, smoothing, compiled, taught)
    loss: Tensor = _ProjectedCrossEntropy.apply(*arguments)  # type: ignore[no-untyped-call]
    return loss


def summed_loss(
    model: Transformer,
    batch: Batch,
    smoothing: float,
    precision: Precision,
    compiled: bool = False,
    teacher: Teacher | None = None,
) -> Tensor:
    """Sum of the loss over a batch's target tokens, on the model's device."""
    device = model.embedding.weight.device
    counted = (batch.tgt_out_ids != PAD_ID).flatten().nonzero()[:, 0]
    target = batch.tgt_out_ids.flatten()[counted].to(device, non_blocking=True)
    # Chosen by index: a mask on the GPU would make the CPU wait for their number.
    rows = counted.to(device, non_blocking=True)
    src = batch.src_ids.to(device, non_blocking=True)
    tgt_in = batch.tgt_in_ids.to(device, non_blocking=True)
    dtype = lower_dtype(precision, device)
    with torch.autocast(device.type, dtype, enabled=dtype is not None):
        taught = None
        if teacher:
            with torch.no_grad():
                theirs = teacher.model(src, src != PAD_ID, tgt_in).flatten(0, 1)[rows]
            taught = Taught(theirs, *teacher.model.output, teacher.share)
        hidden = model(src, src != PAD_ID, tgt_in).flatten(0, 1)[rows]
        weight, bias = model.output
        return projected_cross_entropy(hidden, weight, target, smoothing, bias, compiled, taught)

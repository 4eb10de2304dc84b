"""Muon: update matrices are orthogonalized approximately by a few matrix products.

Source: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon; the size of the steps: Liu et
al. 2025, https://arxiv.org/abs/2502.16982
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from dragoman_training.network.precision import computes_bf16

_MOMENTUM = 0.95
_COEFFICIENTS, _ITERATIONS = (3.4445, -4.775, 2.0315), 5
_ADAM_SIZE = 0.2
"""Root mean square of Adam's updates at a learning rate of one, measured."""


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalized, without weight decay; its state is PyTorch's Muon's.

    PyTorch's own Muon always computes in bf16, which takes three times as long as fp32 on a CPU
    without bf16 products.
    """

    def __init__(self, matrices: Sequence[Tensor], lr: float) -> None:
        """Register matrices [M, N]."""
        super().__init__(matrices, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the matrices by their gradients."""
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is not None:
                    self._change(matrix, matrix.grad, group["lr"])

    def _change(self, matrix: Tensor, gradient: Tensor, learning_rate: float) -> None:
        state = self.state[matrix]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(matrix)
        mean = state["momentum_buffer"].lerp_(gradient, 1.0 - _MOMENTUM)
        update = orthogonalised(gradient.lerp(mean, _MOMENTUM))
        size = _ADAM_SIZE * math.sqrt(max(matrix.shape))
        matrix.add_(update, alpha=-learning_rate * size)


def orthogonalised(matrix: Tensor) -> Tensor:
    """A matrix [M, N] with all singular values moved to between about 0.7 and 1.2.

    Computed in bf16 if the device supports it, else in fp32: Newton-Schulz iterations of fifth
    order.
    """
    dtype = torch.bfloat16 if computes_bf16(matrix.device) else torch.float32
    wide = matrix.size(0) <= matrix.size(1)
    x = (matrix if wide else matrix.T).to(dtype)
    x = x / x.norm().clamp(min=1e-7)
    a, b, c = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x if wide else x.T

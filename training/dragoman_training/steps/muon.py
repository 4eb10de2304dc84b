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


class Muon:
    """Nesterov momentum, orthogonalized, without weight decay; its state is PyTorch's Muon's.

    PyTorch's own Muon always computes in bf16, which takes three times as long as fp32 on a CPU
    without bf16 products.

    Attributes:
        learning_rate: of the next step.
        state: of each matrix that has been updated.
    """

    def __init__(self, matrices: Sequence[Tensor], learning_rate: float = 0.0) -> None:
        """Register matrices [M, N]."""
        self.learning_rate = learning_rate
        self.state: dict[Tensor, dict[str, Tensor]] = {}
        self._matrices = matrices

    @torch.no_grad()
    def step(self) -> None:
        """Update the matrices by their gradients, matrices of one shape together."""
        alike: dict[torch.Size, list[Tensor]] = {}
        for matrix in self._matrices:
            if matrix.grad is not None:
                alike.setdefault(matrix.shape, []).append(matrix)
        for matrices in alike.values():
            self._change(matrices)

    def _change(self, matrices: Sequence[Tensor]) -> None:
        size = _ADAM_SIZE * math.sqrt(max(matrices[0].shape))
        updates = orthogonalised(torch.stack(list(map(self._momentum, matrices))))
        for matrix, update in zip(matrices, updates, strict=True):
            matrix.add_(update, alpha=-self.learning_rate * size)

    def _momentum(self, matrix: Tensor) -> Tensor:
        """Nesterov's, of the gradient."""
        gradient = matrix.grad
        assert gradient is not None
        if matrix not in self.state:
            self.state[matrix] = {"momentum_buffer": torch.zeros_like(matrix)}
        mean = self.state[matrix]["momentum_buffer"].lerp_(gradient, 1.0 - _MOMENTUM)
        return gradient.lerp(mean, _MOMENTUM)


def orthogonalised(matrices: Tensor) -> Tensor:
    """Matrices [B, M, N] with all singular values moved to between about 0.7 and 1.2.

    Computed in bf16 if the device supports it, else in fp32: Newton-Schulz iterations of fifth
    order.
    """
    dtype = torch.bfloat16 if computes_bf16(matrices.device) else torch.float32
    wide = matrices.size(-2) <= matrices.size(-1)
    x = (matrices if wide else matrices.mT).to(dtype)
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    a, b, c = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x if wide else x.mT

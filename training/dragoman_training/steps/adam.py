"""Adam, by PyTorch's fused kernel.

Source: Kingma and Ba 2015, https://arxiv.org/abs/1412.6980
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.adam import adam

_BETAS, _EPSILON = (0.9, 0.98), 1e-9
"""Vaswani et al. 2017, section 5.3."""


class Adam:
    """Updates weights; its state is that of PyTorch's Adam.

    PyTorch's own class imports PyTorch's compiler, which takes 1.5 s.

    Attributes:
        learning_rate: of the next step.
        state: of each weight that has been updated.
    """

    def __init__(self, weights: Sequence[Tensor], learning_rate: float = 0.0) -> None:
        """Register weights."""
        self.learning_rate = learning_rate
        self.state: dict[Tensor, dict[str, Tensor]] = {}
        self._weights = weights

    @torch.no_grad()
    def step(self) -> None:
        """Update the weights by their gradients."""
        weights, gradients = [], []
        for weight in self._weights:
            if weight.grad is not None:
                weights.append(weight)
                gradients.append(weight.grad)
                if weight not in self.state:
                    self.state[weight] = _new_state(weight)
        states = [self.state[weight] for weight in weights]
        adam(
            weights,
            gradients,
            exp_avgs=[state["exp_avg"] for state in states],
            exp_avg_sqs=[state["exp_avg_sq"] for state in states],
            max_exp_avg_sqs=[],
            state_steps=[state["step"] for state in states],
            fused=True,
            amsgrad=False,
            beta1=_BETAS[0],
            beta2=_BETAS[1],
            lr=self.learning_rate,
            weight_decay=0.0,
            eps=_EPSILON,
            maximize=False,
        )


def _new_state(weight: Tensor) -> dict[str, Tensor]:
    return {
        "step": torch.zeros((), dtype=torch.float32, device=weight.device),
        "exp_avg": torch.zeros_like(weight, memory_format=torch.preserve_format),
        "exp_avg_sq": torch.zeros_like(weight, memory_format=torch.preserve_format),
    }

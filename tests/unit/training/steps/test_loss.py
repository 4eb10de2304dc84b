from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from dragoman_training.network.architecture import NEVER
from dragoman_training.steps.loss import ROWS_A_CHUNK, projected_cross_entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", [1, ROWS_A_CHUNK, 2 * ROWS_A_CHUNK + 3])
def test_loss_and_gradients_equal_pytorchs(smoothing: float, rows: int) -> None:
    torch.manual_seed(0)
    hidden = torch.randn(rows, 16, requires_grad=True)
    weight = torch.randn(50, 16, requires_grad=True)
    target = torch.randint(50, (rows,))
    ours = projected_cross_entropy(hidden, weight, target, smoothing)
    theirs = F.cross_entropy(hidden @ weight.T, target, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-4)
    for our_grad, their_grad in zip(
        torch.autograd.grad(3 * ours, (hidden, weight)),
        torch.autograd.grad(3 * theirs, (hidden, weight)),
        strict=True,
    ):
        torch.testing.assert_close(our_grad, their_grad, rtol=1e-4, atol=1e-4)


def test_forbidden_entries_get_no_smoothing_and_no_gradient() -> None:
    torch.manual_seed(0)
    hidden, weight = torch.randn(30, 16), torch.randn(50, 16)
    bias = torch.randn(50)
    bias[40:] = NEVER
    bias.requires_grad_()
    target = torch.randint(40, (30,))
    ours = projected_cross_entropy(hidden, weight, target, 0.1, bias)
    allowed = F.linear(hidden, weight[:40], bias[:40])
    theirs = F.cross_entropy(allowed, target, label_smoothing=0.1, reduction="sum")
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-4)
    (our_grad,), (their_grad,) = (torch.autograd.grad(one, bias) for one in (ours, theirs))
    torch.testing.assert_close(our_grad, their_grad, rtol=1e-4, atol=1e-4)
    assert not our_grad[40:].any()


def test_bf16_is_close_to_fp32() -> None:
    torch.manual_seed(0)
    hidden, weight = torch.randn(64, 16), torch.randn(50, 16)
    target = torch.randint(50, (64,))
    right = projected_cross_entropy(hidden, weight, target, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        rough = projected_cross_entropy(hidden, weight, target, 0.1)
    assert rough.dtype == torch.float32
    torch.testing.assert_close(rough, right, rtol=1e-2, atol=0.0)

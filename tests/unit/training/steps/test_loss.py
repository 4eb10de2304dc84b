from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from dragoman_training.network.architecture import NEVER
from dragoman_training.network.transformer import Transformer
from dragoman_training.steps.loss import (
    ROWS_A_CHUNK,
    Taught,
    Teacher,
    projected_cross_entropy,
    summed_loss,
)
from dragoman_training.text.examples import Batch

from dragoman.kernel.text import PAD_ID
from tests.tiny_models import tiny_config


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
    (our_grad,), (their_grad,) = (torch.autograd.grad(loss, bias) for loss in (ours, theirs))
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


@pytest.mark.parametrize("share", [0.25, 1.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("forbidden", [0, 10])
def test_a_teachers_distribution_is_its_share_of_the_target(
    share: float, smoothing: float, forbidden: int
) -> None:
    """Against the cross-entropy with the target written out; the teacher has another size."""
    torch.manual_seed(0)
    rows, allowed = ROWS_A_CHUNK + 3, 50 - forbidden
    hidden = torch.randn(rows, 16, requires_grad=True)
    weight = torch.randn(50, 16, requires_grad=True)
    bias = torch.randn(50)
    bias[allowed:] = NEVER
    bias.requires_grad_()
    theirs = Taught(torch.randn(rows, 24), torch.randn(50, 24), bias.detach().clone(), share)
    gold = torch.randint(allowed, (rows,))
    ours = projected_cross_entropy(hidden, weight, gold, smoothing, bias, taught=theirs)
    smooth = F.one_hot(gold, allowed) * (1 - smoothing) + smoothing / allowed
    their_logits = F.linear(theirs.hidden, theirs.weight[:allowed], bias.detach()[:allowed])
    target = (1 - share) * smooth + share * their_logits.softmax(-1)
    logits = F.linear(hidden, weight[:allowed], bias[:allowed])
    right = -(target * logits.log_softmax(-1)).sum()
    torch.testing.assert_close(ours, right, rtol=1e-5, atol=1e-4)
    inputs = (hidden, weight, bias)
    for grad, right_grad in zip(
        torch.autograd.grad(3 * ours, inputs), torch.autograd.grad(3 * right, inputs), strict=True
    ):
        torch.testing.assert_close(grad, right_grad, rtol=1e-4, atol=1e-4)


def test_a_teacher_reads_the_same_prefixes_without_dropout_or_gradients() -> None:
    torch.manual_seed(0)
    config = replace(tiny_config(), dropout=0.3)
    larger = replace(config, model_size=32, feed_forward_size=96, encoder_layers=1)
    model, teacher = Transformer(replace(config, dropout=0.0)), Transformer(larger)
    teacher.eval().requires_grad_(False)
    ids = torch.randint(4, config.vocab_size, (5, 7))
    ids[2:, 5:] = PAD_ID
    batch = Batch(ids, ids.roll(1, 0), ids)
    loss = summed_loss(model, batch, 0.1, "fp32", teacher=Teacher(teacher, 0.4))
    loss.backward()  # type: ignore[no-untyped-call]
    assert all(weight.grad is None for weight in teacher.parameters())
    assert all(weight.grad is not None for weight in model.parameters())
    right = torch.zeros(())
    sides = (batch.src_ids, batch.tgt_in_ids, batch.tgt_out_ids)
    for src, tgt_in, tgt_out in zip(*sides, strict=True):
        of_row = (src[None], src[None] != PAD_ID, tgt_in[None])
        logits, theirs = (
            network.project(network(*of_row)).detach()[0] for network in (model, teacher)
        )
        smooth = F.one_hot(tgt_out, config.vocab_size) * 0.9 + 0.1 / config.vocab_size
        target = 0.6 * smooth + 0.4 * theirs.softmax(-1)
        right -= (target * logits.log_softmax(-1)).sum(-1)[tgt_out != PAD_ID].sum()
    torch.testing.assert_close(loss.detach(), right, rtol=1e-5, atol=1e-3)

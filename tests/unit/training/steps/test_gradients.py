from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
import torch
from dragoman_training.config import OptimisationConfig
from dragoman_training.network.transformer import Transformer
from dragoman_training.steps.gradients import Gradients
from dragoman_training.steps.loss_scale import LossScale
from dragoman_training.steps.processes import Processes
from dragoman_training.text.examples import Examples, pieces
from dragoman_training.text.parallel_text import ParallelText
from torch import Tensor

from dragoman.kernel.errors import UsageError
from dragoman.kernel.text import Tokenizer
from tests.tiny_models import tiny_model
from tests.toy import reverse_pairs

CONFIG = OptimisationConfig(precision="fp32", batch_tokens=400, part_tokens=100)


class _FullMemory(torch.autograd.Function):
    """Identity in the forward pass, out of memory in the backward pass."""

    @staticmethod
    def forward(_ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(_ctx: Any, *_grads: Tensor) -> Tensor:
        raise torch.OutOfMemoryError("no memory is left")


class SmallMemory(Transformer):
    """A model that runs out of memory above this many tokens at a time, as on a GPU.

    With `in_backward` it does so when the decoder has its gradients already.
    """

    most_tokens = 10**9
    in_backward = False

    def forward(self, src_ids: Tensor, src_keep_mask: Tensor, tgt_ids: Tensor) -> Tensor:
        tokens = src_ids.size(0) * max(src_ids.size(1), tgt_ids.size(1))
        is_full = tokens > self.most_tokens
        if is_full and not self.in_backward:
            raise torch.OutOfMemoryError("no memory is left")
        memory = self.encode(src_ids, src_keep_mask)
        if is_full:
            memory = _FullMemory.apply(memory)  # type: ignore[no-untyped-call]
        return self.decode(tgt_ids, memory, src_keep_mask)


def small_memory(most_tokens: int, in_backward: bool = False) -> SmallMemory:
    tiny = tiny_model()
    model = SmallMemory(replace(tiny.config, dropout=0.0))
    model.load_state_dict(tiny.state_dict())
    model.most_tokens, model.in_backward = most_tokens, in_backward
    return model


@pytest.fixture
def examples(tokenizer: Tokenizer) -> Examples:
    return Examples([ParallelText(reverse_pairs(60, seed=1), ("en", "de"))], tokenizer, 200)


def gradients_of(
    examples: Examples, model: Transformer, most_tokens: int | None = None
) -> tuple[float, dict[str, Tensor], int | None]:
    """Loss, gradients, and the maximum number of tokens that fit, after one step."""
    of_step = Gradients(model, examples.batch, CONFIG, Processes(), most_tokens)
    parts = examples.steps(400, 100, seed=1, epoch=0)[0]
    assert len(parts) > 2
    value = of_step.add_up(parts, 1, 10.0)
    named = {
        name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None
    }
    return value.translation, named, of_step.most_tokens


@pytest.mark.parametrize("in_backward", [False, True])
def test_a_part_too_large_for_the_memory_is_split_with_the_same_sum(
    examples: Examples, in_backward: bool, caplog: pytest.LogCaptureFixture
) -> None:
    value, right, most_tokens = gradients_of(examples, small_memory(10**9))
    assert most_tokens is None
    loss, grads, most_tokens = gradients_of(examples, small_memory(40, in_backward))
    assert loss == pytest.approx(value, rel=1e-5)
    assert grads.keys() == right.keys()
    for name, grad in grads.items():
        torch.testing.assert_close(grad, right[name], atol=1e-4, rtol=1e-3)
    assert most_tokens is not None
    assert most_tokens <= 50
    assert "do not fit the memory of cpu; continuing with" in caplog.text


def test_a_size_that_did_not_fit_is_not_tried_again(
    examples: Examples, caplog: pytest.LogCaptureFixture
) -> None:
    model = small_memory(40)
    _, right, most_tokens = gradients_of(examples, model)
    caplog.clear()
    _, grads, same = gradients_of(examples, model, most_tokens)
    assert same == most_tokens
    assert caplog.text == ""
    for name, grad in grads.items():
        assert torch.equal(grad, right[name])


def test_a_pair_too_large_for_the_memory_is_reported_in_one_line(examples: Examples) -> None:
    with pytest.raises(UsageError, match=r"step 1: a sentence pair of \d+ tokens does not fit"):
        gradients_of(examples, small_memory(1))


def test_parts_have_every_pair_once(examples: Examples) -> None:
    batch = examples.batch(examples.steps(400, 400, seed=1, epoch=0)[0][0])
    parts = list(pieces(batch, 50))
    assert len(parts) > 4
    assert all(piece.padded_tokens <= 50 for piece in parts)
    assert torch.equal(torch.cat([piece.src_ids for piece in parts]), batch.src_ids)
    assert torch.equal(torch.cat([piece.tgt_out_ids for piece in parts]), batch.tgt_out_ids)
    assert [len(piece.src_ids) for piece in pieces(batch, 1)] == [1] * len(batch.src_ids)
    assert [piece.src_ids is not None for piece in pieces(batch, None)] == [True]


def test_a_loss_scale_falls_at_an_overflow_and_rises_after_good_steps(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    scale = LossScale(value=8.0).after_step(7, overflowed=True)
    assert scale == LossScale(4.0, 0, 1)
    assert "step 7 skipped: fp16 overflow at a loss scale of 8" in caplog.text
    for step in range(1999):
        scale = scale.after_step(step, overflowed=False)
    assert scale == LossScale(4.0, 1999, 1)
    assert scale.after_step(2000, overflowed=False) == LossScale(8.0, 0, 1)
    assert scale.after_step(2000, overflowed=True) == LossScale(2.0, 0, 2)
    assert LossScale(2.0**24, 1999).after_step(1, overflowed=False).value == 2.0**24
    with pytest.raises(UsageError, match="step 9: the gradients overflow fp16 at any scale"):
        LossScale(1.0).after_step(9, overflowed=True)

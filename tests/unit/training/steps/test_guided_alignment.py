from __future__ import annotations

import math
import weakref

import pytest
import torch
from dragoman_training.config import AlignmentConfig, OptimisationConfig
from dragoman_training.network.attention_weights import look
from dragoman_training.network.transformer import Dropout, MultiHeadAttention, Transformer
from dragoman_training.steps.gradients import Gradients, Losses
from dragoman_training.steps.guided_alignment import GuidedAlignment, link_loss
from dragoman_training.steps.processes import Processes
from dragoman_training.text.examples import Batch, Examples
from dragoman_training.text.parallel_text import ParallelText
from torch import Tensor

from dragoman.kernel.errors import UsageError
from dragoman.kernel.text import PAD_ID, Tokenizer
from tests.tiny_models import tiny_model

LAYER, HEAD = 1, 2
PAIRS = [("red blue", "blue red", "0-1 1-0"), ("green", "pink grey", "0-0 0-1"), ("a", "b", "")]


def model_in_training(norm: str = "post") -> Transformer:
    model = tiny_model(norm).train()
    for module in model.modules():
        if isinstance(module, Dropout):
            module.dropped_bytes = 0
    return model


@pytest.fixture
def examples(tokenizer: Tokenizer) -> Examples:
    return Examples([ParallelText(PAIRS, ("en", "de"), links=[(0, 1)])], tokenizer, 200)


@pytest.fixture
def batch(examples: Examples) -> Batch:
    (part,) = examples.steps(1000, 1000, seed=1, epoch=0)[0]
    return examples.batch(part)


def naive_loss(weights: Tensor, linked: Tensor) -> float:
    """The loss of weights [B, T, S], one target token at a time."""
    total = 0.0
    for of_pair, links in zip(weights.tolist(), linked.tolist(), strict=True):
        for row, of_row in zip(of_pair, links, strict=True):
            sources = [weight for weight, is_linked in zip(row, of_row, strict=True) if is_linked]
            total -= sum(math.log(weight) / len(sources) for weight in sources)
    return total


def run(model: Transformer, batch: Batch) -> Tensor:
    hidden: Tensor = model(batch.src_ids, batch.src_ids != PAD_ID, batch.tgt_in_ids)
    return hidden


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize(("layer", "head"), [(None, 0), (LAYER, HEAD), (0, 3)])
def test_the_loss_is_computed_from_the_heads_weights(
    batch: Batch, norm: str, layer: int | None, head: int
) -> None:
    model = model_in_training(norm)
    guided = GuidedAlignment(model, AlignmentConfig(0.1, layer, head))
    run(model, batch)
    assert batch.linked is not None
    loss = guided.loss(batch.linked)
    _, _, cross = look(model, batch.src_ids, batch.src_ids != PAD_ID, batch.tgt_in_ids)
    weights = cross[:, 1 if layer is None else layer, head]  # the last but one of three layers
    assert loss.item() == pytest.approx(naive_loss(weights, batch.linked), rel=1e-5)


def test_targets_without_links_and_masked_sources_have_no_effect() -> None:
    scores = torch.tensor([[[1.0, 2.0, -math.inf], [0.5, 0.5, -math.inf]]], requires_grad=True)
    linked = torch.tensor([[[True, False, False], [False, False, False]]])
    loss = link_loss(scores.log_softmax(-1), linked)
    assert loss.item() == pytest.approx(math.log1p(math.e))
    (grad,) = torch.autograd.grad(loss, scores)
    assert torch.isfinite(grad).all()
    assert (grad[0, 1] == 0).all()
    assert (grad[0, 0, :2] != 0).all()


def test_the_gradient_reaches_only_what_the_head_depends_on(batch: Batch) -> None:
    model = model_in_training()
    guided = GuidedAlignment(model, AlignmentConfig(0.1, LAYER, HEAD))
    run(model, batch)
    assert batch.linked is not None
    guided.loss(batch.linked).backward()  # type: ignore[no-untyped-call]
    reached = {name for name, weight in model.named_parameters() if weight.grad is not None}
    cross = f"decoder_layers.{LAYER}.cross_attention"
    own = {f"{cross}.query.weight", f"{cross}.key_value.weight"}
    before = (
        *("embedding", "encoder_", f"decoder_layers.{LAYER - 1}."),
        f"decoder_layers.{LAYER}.self_attention",
    )
    assert reached == own | {
        name for name, _ in model.named_parameters() if name.startswith(before)
    }
    rows = slice(HEAD * 16, (HEAD + 1) * 16)  # of 64 keys or queries, before as many values
    for name in own:
        grad = model.get_parameter(name).grad
        assert grad is not None
        assert (grad[rows] != 0).any()
        assert grad.abs().sum() == grad[rows].abs().sum()


def losses_and_gradients(
    examples: Examples, weight: float | None, most_tokens: int | None = None
) -> tuple[Losses, dict[str, Tensor]]:
    model = model_in_training()
    guided = GuidedAlignment(model, AlignmentConfig(weight, LAYER, HEAD)) if weight else None
    config = OptimisationConfig(precision="fp32", label_smoothing=0.0)
    gradients = Gradients(model, examples.batch, config, Processes(), most_tokens, guided)
    losses = gradients.add_up(examples.steps(1000, 1000, seed=1, epoch=0)[0], 1, 2.0)
    return losses, {
        name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None
    }


def test_a_step_that_runs_out_of_memory_releases_its_tensors(
    examples: Examples, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_in_training()
    gradients = Gradients(
        model=model,
        batch=examples.batch,
        config=OptimisationConfig(precision="fp32"),
        processes=Processes(),
        guided=GuidedAlignment(model, AlignmentConfig(0.1)),
    )
    held: list[weakref.ref[Tensor]] = []
    freed: list[bool] = []
    model.register_forward_pre_hook(
        lambda *_: freed.append(all(reference() is None for reference in held))
    )

    def out_of_memory(_self: MultiHeadAttention, _head: int, *inputs: Tensor) -> Tensor:
        held.extend(map(weakref.ref, inputs))
        raise torch.OutOfMemoryError("no memory is left")

    monkeypatch.setattr(MultiHeadAttention, "log_weights", out_of_memory)
    with pytest.raises(UsageError, match=r"a sentence pair of .* does not fit the memory"):
        gradients.add_up(examples.steps(1000, 1000, seed=1, epoch=0)[0], 1, 1.0)
    assert len(freed) > 1, "tried with fewer tokens"
    assert all(freed)


def test_a_step_adds_the_weighted_loss(examples: Examples, batch: Batch) -> None:
    assert batch.linked is not None
    plain, without = losses_and_gradients(examples, None)
    assert plain[1:] == (0.0, 0.0)
    once, first = losses_and_gradients(examples, 0.5)
    twice, second = losses_and_gradients(examples, 1.0)
    assert once == twice
    assert once.translation == pytest.approx(plain.translation)
    assert once.linked_tokens == batch.linked.any(-1).sum()
    for name, grad in without.items():
        torch.testing.assert_close(
            second[name] - grad, 2 * (first[name] - grad), rtol=1e-3, atol=1e-5
        )
    assert any((first[name] - grad).abs().max() > 1e-3 for name, grad in without.items())
    parts, of_parts = losses_and_gradients(examples, 0.5, most_tokens=8)
    assert parts == pytest.approx(once, rel=1e-5)
    for name, grad in first.items():
        torch.testing.assert_close(of_parts[name], grad, rtol=1e-3, atol=1e-5)

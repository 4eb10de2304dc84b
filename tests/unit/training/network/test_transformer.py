from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from dragoman_training.network import transformer
from dragoman_training.network.architecture import PRESETS, ModelConfig, weight_shapes

from dragoman.kernel.errors import UsageError
from tests.tiny_models import elaborate_config, ssru_config, tiny_config, tiny_model


def assert_close(actual: torch.Tensor, right: torch.Tensor) -> None:
    torch.testing.assert_close(actual, right, rtol=1e-4, atol=1e-5)


def random_masks() -> tuple[torch.Tensor, torch.Tensor]:
    """Masks as the encoder and the decoder use them, for B = 3, T = 5, S = 5."""
    lengths = torch.tensor([5, 2, 4])
    padding = (torch.arange(5) < lengths[:, None])[:, None, None, :]
    return padding, torch.ones(5, 5, dtype=torch.bool).tril()


@pytest.mark.parametrize("mask", random_masks(), ids=["padding", "causal"])
def test_attention_equals_pytorchs_with_its_gradients(mask: torch.Tensor) -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(3, 4, 5, 8, requires_grad=True) for _ in range(3)]
    query, key, value = tensors
    ours = transformer.attention(query, key, value, mask)
    theirs = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    assert_close(ours, theirs)
    weight = torch.randn_like(ours)
    our_grads = torch.autograd.grad((ours * weight).sum(), tensors)
    their_grads = torch.autograd.grad((theirs * weight).sum(), tensors)
    for our_grad, their_grad in zip(our_grads, their_grads, strict=True):
        assert_close(our_grad, their_grad)


def test_shapes_match_the_docstrings() -> None:
    config = tiny_config()
    model = tiny_model()
    src, tgt = torch.randint(4, 300, (2, 7)), torch.randint(4, 300, (2, 5))
    keep = torch.ones(2, 7, dtype=torch.bool)
    memory = model.encode(src, keep)
    assert memory.shape == (2, 7, config.model_size)
    hidden = model.decode(tgt, memory, keep)
    assert hidden.shape == (2, 5, config.model_size)
    assert model.project(hidden).shape == (2, 5, config.vocab_size)
    attend = transformer.MultiHeadAttention(config)
    assert attend(hidden, memory, keep[:, None, None, :]).shape == hidden.shape


def test_base_has_the_papers_size() -> None:
    config = ModelConfig(vocab_size=37_000, **PRESETS["base"])  # type: ignore[arg-type]
    parameters = sum(weight.numel() for weight in transformer.Transformer(config).parameters())
    assert 63e6 <= parameters <= 66e6


def test_big_is_configured_as_in_the_paper() -> None:
    config = ModelConfig(vocab_size=37_000, **PRESETS["big"])  # type: ignore[arg-type]
    with torch.device("meta"):
        parameters = sum(weight.numel() for weight in transformer.Transformer(config).parameters())
    assert 205e6 <= parameters <= 215e6
    assert config.dropout == 0.3


CONFIGS = [tiny_config("post"), tiny_config("pre"), ssru_config("post"), ssru_config("pre")]


@pytest.mark.parametrize("config", CONFIGS)
def test_padding_changes_nothing(config: ModelConfig) -> None:
    model = tiny_model(config=config)
    src, tgt = torch.randint(4, 300, (1, 6)), torch.randint(4, 300, (1, 4))
    alone = model(src, torch.ones(1, 6, dtype=torch.bool), tgt)
    padded = torch.cat((src, torch.randint(0, 300, (1, 3))), dim=1)
    keep = torch.tensor([[True] * 6 + [False] * 3])
    assert_close(model(padded, keep, tgt), alone)


@pytest.mark.parametrize("config", CONFIGS)
def test_the_decoder_does_not_see_the_future(config: ModelConfig) -> None:
    model = tiny_model(config=config)
    src, keep = torch.randint(4, 300, (1, 6)), torch.ones(1, 6, dtype=torch.bool)
    tgt = torch.randint(4, 300, (1, 5))
    changed = tgt.clone()
    changed[0, 3] = (changed[0, 3] + 1) % 300
    before, after = model(src, keep, tgt), model(src, keep, changed)
    assert_close(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3], after[:, 3])


def test_an_ssru_is_its_equations_with_their_gradients() -> None:
    torch.manual_seed(0)
    unit, x = transformer.Ssru(ssru_config()), torch.randn(3, 5, 64, requires_grad=True)
    torch.nn.init.normal_(unit.forget.bias)
    cell, steps = torch.zeros(3, 64), []
    for step in range(5):
        forget = torch.sigmoid(unit.forget(x[:, step]))
        cell = forget * cell + (1 - forget) * unit.candidate(x[:, step])
        steps.append(torch.relu(cell))
    right, result = torch.stack(steps, dim=1), unit(x)
    assert_close(result, right)
    inputs, weight = [x, *unit.parameters()], torch.randn_like(result)
    ours = torch.autograd.grad((result * weight).sum(), inputs)
    theirs = torch.autograd.grad((right * weight).sum(), inputs)
    for grad, right_grad in zip(ours, theirs, strict=True):
        assert_close(grad, right_grad)


def test_an_ssru_computes_its_recurrence_in_fp32() -> None:
    unit, x = transformer.Ssru(ssru_config()), torch.randn(1, 300, 64)
    with torch.autocast("cpu", torch.bfloat16):
        assert unit(x).dtype == torch.float32


def test_epsilon_and_positions_are_configured() -> None:
    model = tiny_model(config=replace(tiny_config(), norm_epsilon=0.5))
    norms = [module for module in model.modules() if isinstance(module, torch.nn.LayerNorm)]
    assert {norm.eps for norm in norms} == {0.5}
    inclusive = tiny_model(config=replace(tiny_config(), position_rates="inclusive"))
    # The slowest pair of columns turns by 1 / 10000 a position.
    assert inclusive.positions[1, -2].item() == pytest.approx(1e-4)
    assert model.positions[1, -2].item() > 1.2e-4


def test_the_source_and_its_order_matter() -> None:
    model = tiny_model()
    keep, tgt = torch.ones(1, 4, dtype=torch.bool), torch.tensor([[2]])
    forth, back = torch.tensor([[4, 5, 6, 7]]), torch.tensor([[7, 6, 5, 4]])
    assert not torch.allclose(model(forth, keep, tgt), model(back, keep, tgt))


def test_embedding_and_projection_share_one_matrix() -> None:
    names = [name for name, _ in tiny_model().named_parameters()]
    config = tiny_config()
    matrices = [
        weight
        for weight in tiny_model().parameters()
        if weight.shape == (config.vocab_size, config.model_size)
    ]
    assert len(matrices) == 1
    assert "embedding.weight" in names


def test_dropout_drops_its_share_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    dropout = transformer.Dropout(0.1)
    x = torch.ones(1000, 1000)
    dropped = dropout(x)
    assert (dropped == 0).float().mean().item() == pytest.approx(26 / 256, abs=1e-3)
    assert dropped.mean().item() == pytest.approx(1.0, abs=2e-3)
    # Neighbouring scores must not be tied.
    kept = (dropped != 0).float().flatten()
    assert torch.corrcoef(torch.stack((kept[:-1], kept[1:])))[0, 1].abs() < 5e-3
    assert dropout.eval()(x) is x


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 3}, "model.model_size is 64"),
        ({"decoder_layers": 0}, "model.decoder_layers is 0"),
        ({"dropout": 1.0}, "model.dropout is 1.0"),
        ({"norm": "middle"}, "model.norm is 'middle'"),
        ({"decoder": "rnn"}, "model.decoder is 'rnn': give one of 'attention', 'ssru'"),
        ({"norm_epsilon": 0.0}, "model.norm_epsilon is 0.0"),
        ({"position_rates": "none"}, "model.position_rates is 'none'"),
    ],
)
def test_impossible_sizes_are_refused_by_name(change: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(tiny_config(), **change)  # type: ignore[arg-type]


@pytest.mark.parametrize("config", [*CONFIGS, elaborate_config()])
def test_shapes_are_known_without_the_network(config: ModelConfig) -> None:
    tensors = transformer.Transformer(config).state_dict()
    assert weight_shapes(config) == {name: tuple(tensor.shape) for name, tensor in tensors.items()}

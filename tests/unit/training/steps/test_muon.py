from __future__ import annotations

import pytest
import torch
from dragoman_training.steps import muon
from dragoman_training.steps.muon import Muon, orthogonalised


@pytest.mark.parametrize("shape", [(24, 24), (16, 48), (48, 16)])
def test_a_matrix_becomes_nearly_orthogonal(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    matrix = torch.randn(shape)
    (orthogonal,) = orthogonalised(matrix[None]).float()
    assert orthogonal.shape == shape
    values = torch.linalg.svdvals(orthogonal)
    assert values.min() > 0.5
    assert values.max() < 1.3
    # The directions stay: the result is U V^T of the matrix's own U S V^T.
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    diagonal = u.T @ orthogonal @ v.T
    off = diagonal - torch.diag(torch.diagonal(diagonal))
    assert off.abs().max() < 0.05


def test_steps_equal_those_of_pytorchs_muon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(muon, "computes_bf16", lambda _device: True)  # as PyTorch computes
    torch.manual_seed(0)
    own = [torch.nn.Parameter(torch.randn(shape)) for shape in ((16, 16), (16, 64), (64, 16))]
    theirs = [torch.nn.Parameter(matrix.detach().clone()) for matrix in own]
    settings = {"lr": 0.01, "weight_decay": 0.0, "adjust_lr_fn": "match_rms_adamw"}
    optimizer = Muon(own, 0.01)
    reference = torch.optim.Muon(theirs, **settings)  # type: ignore[arg-type]
    for _ in range(5):
        for matrix, other in zip(own, theirs, strict=True):
            matrix.grad = torch.randn_like(matrix)
            other.grad = matrix.grad.clone()
        optimizer.step()
        reference.step()  # type: ignore[no-untyped-call]
    for matrix, other in zip(own, theirs, strict=True):
        torch.testing.assert_close(matrix, other)
        state, right = optimizer.state[matrix], reference.state[other]
        assert state.keys() == right.keys()
        torch.testing.assert_close(state["momentum_buffer"], right["momentum_buffer"])


def test_fp32_gives_the_same_except_for_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    matrices, outputs = torch.randn(2, 32, 64), []
    for able in (True, False):
        monkeypatch.setattr(muon, "computes_bf16", lambda _device, able=able: able)
        outputs.append(orthogonalised(matrices))
    assert [matrix.dtype for matrix in outputs] == [torch.bfloat16, torch.float32]
    torch.testing.assert_close(outputs[0].float(), outputs[1], atol=0.02, rtol=0.1)

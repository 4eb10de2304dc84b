from __future__ import annotations

import pytest
import torch
from dragoman_training.network.transformer import Transformer
from torch import Tensor

from lab.training import training_step
from tests.tiny_models import tiny_model


def test_a_device_that_computes_something_else_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cpu = torch.device("cpu")
    assert training_step.check_parity(tiny_model("pre"), cpu)
    calls = 0
    right = training_step.loss_of

    def scaled(model: Transformer, ids: Tensor, keep: Tensor, dtype: torch.dtype) -> Tensor:
        nonlocal calls
        calls += 1
        return right(model, ids, keep, dtype) * (1.001 if calls == 2 else 1.0)

    monkeypatch.setattr(training_step, "loss_of", scaled)
    assert not training_step.check_parity(tiny_model("pre"), cpu)
    assert "FAIL  cpu torch.float32: loss 1.0e-03" in capsys.readouterr().out

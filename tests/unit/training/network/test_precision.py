from __future__ import annotations

import pytest
import torch
from dragoman_training.network import precision
from dragoman_training.network.architecture import Precision
from dragoman_training.network.precision import (
    computes_bf16,
    lower_dtype,
    padding_multiple,
    set_up,
)

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("able", "dtype"),
    [
        ({"avx512_f": True, "avx512_bf16": False}, None),
        ({"avx512_bf16": True}, torch.bfloat16),
        ({"amx_bf16": True}, torch.bfloat16),
        ({}, None),
    ],
)
def test_a_precision_that_a_cpu_cannot_multiply_is_not_chosen(
    monkeypatch: pytest.MonkeyPatch, able: dict[str, bool], dtype: torch.dtype | None
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: able)
    computes_bf16.cache_clear()
    assert lower_dtype("auto", CPU) == dtype
    monkeypatch.undo()
    computes_bf16.cache_clear()


@pytest.mark.parametrize(
    ("named", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16), ("fp32", None)]
)
def test_a_given_precision_is_used(
    monkeypatch: pytest.MonkeyPatch, named: Precision, dtype: torch.dtype | None
) -> None:
    for able in (True, False):
        monkeypatch.setattr(precision, "computes_bf16", lambda _device, able=able: able)
        assert lower_dtype(named, CPU) == dtype


def test_cudnns_attention_is_off_on_a_gpu_only(monkeypatch: pytest.MonkeyPatch) -> None:
    off: list[bool] = []
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", off.append)
    former = torch.get_float32_matmul_precision()
    try:
        for device, switched in (("cpu", []), ("cuda", [False])):
            for tf32, name in ((True, "high"), (False, "highest")):
                off.clear()
                set_up(torch.device(device), tf32)
                assert (off, torch.get_float32_matmul_precision()) == (switched, name)
    finally:
        torch.set_float32_matmul_precision(former)
    assert (padding_multiple(CPU), padding_multiple(torch.device("cuda"))) == (1, 8)
